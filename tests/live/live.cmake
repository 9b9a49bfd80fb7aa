# Real servers and real clients. Each file adds its own tests, so that two people rarely meet in this one.
include(live/live_postgres.cmake OPTIONAL)
include(live/live_sqlite.cmake OPTIONAL)
if(TARGET termgate_postgres)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(LIBPQ REQUIRED IMPORTED_TARGET libpq)
  termgate_test(live_pg_schedules LABEL live TIMEOUT 900 NEEDS TERMGATE_TEST_POSTGRESQL SOURCES live/pg_schedules.cpp LIBRARIES Termgate::storage PkgConfig::LIBPQ)
  termgate_test(live_pg_faults LABEL live TIMEOUT 600 NEEDS TERMGATE_TEST_POSTGRESQL
    SOURCES live/pg_faults.cpp live/pg_crash.cpp support/fault_proxy.cpp
    LIBRARIES Termgate::storage PkgConfig::LIBPQ Threads::Threads)
  target_compile_definitions(live_pg_faults PRIVATE TERMGATE_TEST_PG_SERVER="${CMAKE_CURRENT_SOURCE_DIR}/support/pg_server.sh")
endif()
if(TARGET termgate)
  add_test(NAME live_cli COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/live/cli_test.py" $<TARGET_FILE:termgate> "${CMAKE_CURRENT_SOURCE_DIR}/support/pg_server.sh")
  set_tests_properties(live_cli PROPERTIES LABELS live SKIP_RETURN_CODE 77 TIMEOUT 600)
  if(TARGET termgate_postgres)
    # Starts servers of its own, some twenty of them.
    add_test(NAME live_pg_restore COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/live/pg_restore_test.py" $<TARGET_FILE:termgate> "${CMAKE_CURRENT_SOURCE_DIR}/support/pg_server.sh")
    set_tests_properties(live_pg_restore PROPERTIES LABELS live TIMEOUT 600)
  endif()
  add_test(NAME live_demo COMMAND termgate demo)
  set_tests_properties(live_demo PROPERTIES LABELS live TIMEOUT 120 PASS_REGULAR_EXPRESSION "TG001 stale term 1 .*the law is kept")
endif()
