# One suite, run once a lock service: TERMGATE_SOURCE says which. A new source is done when it passes.
if(TARGET termgate_sources AND TARGET termgate_sqlite)
  add_executable(source_suite sources/suite.cpp sources/server.cpp)
  target_link_libraries(source_suite PRIVATE termgate_catch Termgate::storage Termgate::sources fmt::fmt Threads::Threads)
  target_compile_definitions(source_suite PRIVATE TERMGATE_TEST_SOURCES="${CMAKE_CURRENT_SOURCE_DIR}/sources")
  termgate_quickly_compiled(source_suite)
  foreach(service IN ITEMS redis etcd zookeeper consul kubernetes)
    if(TARGET termgate_source_${service})
      add_test(NAME source_${service} COMMAND source_suite)
      set_tests_properties(source_${service} PROPERTIES LABELS sources SKIP_RETURN_CODE 77 TIMEOUT 300 ENVIRONMENT "TERMGATE_SOURCE=${service}")
    endif()
  endforeach()
endif()
if(TARGET termgate_source_redis AND TARGET termgate_source_file)
  termgate_test(unit_sources LABEL unit
    SOURCES unit/sources/file.cpp unit/sources/redis_reply.cpp unit/sources/url.cpp
    LIBRARIES Termgate::sources Termgate::source_redis Termgate::source_net)
  target_include_directories(unit_sources PRIVATE "${PROJECT_SOURCE_DIR}/sources/redis/src")
endif()
