if(TARGET termgate_http)
  find_package(OpenSSL 3 REQUIRED)
  termgate_test(unit_http LABEL unit
    SOURCES
      unit/http/answers.cpp
      unit/http/frames.cpp
      unit/http/requests.cpp
      unit/http/tls.cpp
      unit/http/tokens.cpp
      unit/http/websocket.cpp
    LIBRARIES Termgate::http OpenSSL::SSL OpenSSL::Crypto fmt::fmt Threads::Threads)
  target_include_directories(unit_http PRIVATE "${PROJECT_SOURCE_DIR}/http/src")
endif()
