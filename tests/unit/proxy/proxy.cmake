if(TARGET termgate_pgwire)
  termgate_test(unit_pgwire LABEL unit
    SOURCES
      unit/proxy/pgwire_messages.cpp
      unit/proxy/pgwire_reader.cpp
      unit/proxy/pgwire_startup.cpp
    LIBRARIES Termgate::pgwire)
endif()
