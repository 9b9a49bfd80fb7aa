if(TARGET termgate_postgres)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(LIBPQ REQUIRED IMPORTED_TARGET libpq)
  termgate_test(unit_postgres LABEL unit
    SOURCES
      unit/storage/postgres/conninfo.cpp
      unit/storage/postgres/errors.cpp
      unit/storage/postgres/redact.cpp
      unit/storage/postgres/schema.cpp
      unit/storage/postgres/statement_text.cpp
      unit/storage/postgres/watchdog.cpp
    LIBRARIES Termgate::postgres PkgConfig::LIBPQ)
  target_include_directories(unit_postgres PRIVATE "${PROJECT_SOURCE_DIR}/storage/postgres/src")
endif()
if(TARGET termgate_sqlite)
  find_package(SQLite3 REQUIRED)
  termgate_test(unit_sqlite APART LABEL unit
    SOURCES
      unit/storage/sqlite/attached.cpp
      unit/storage/sqlite/driver.cpp
      unit/storage/sqlite/errors.cpp
      unit/storage/sqlite/layer1.cpp
      unit/storage/sqlite/moved.cpp
      unit/storage/sqlite/power_loss.cpp
      unit/storage/sqlite/protect.cpp
      unit/storage/sqlite/replaced.cpp
      unit/storage/sqlite/unfit.cpp
      unit/storage/sqlite/verify.cpp
      unit/storage/sqlite/write_queue.cpp
    LIBRARIES Termgate::sqlite Termgate::sql SQLite::SQLite3 Threads::Threads)
  target_include_directories(unit_sqlite PRIVATE "${PROJECT_SOURCE_DIR}/storage/sqlite/src")
endif()
if(TARGET termgate_sqlite_file)
  termgate_test(unit_sqlite_file APART LABEL unit
    SOURCES
      unit/sqlite_server/file/functions.cpp
      unit/sqlite_server/file/guard.cpp
      unit/sqlite_server/file/session.cpp
      unit/sqlite_server/file/takeover.cpp
    LIBRARIES Termgate::sqlite_file Termgate::sqlite SQLite::SQLite3 fmt::fmt Threads::Threads)
endif()
if(TARGET termgate)
  termgate_test(unit_cli APART LABEL unit
    SOURCES unit/cli/drill/tds.cpp unit/cli/drill/wire.cpp unit/cli/secrets.cpp unit/cli/storm/log.cpp
    LIBRARIES termgate_command Termgate::fencing Termgate::testkit fmt::fmt Threads::Threads)
  target_include_directories(unit_cli PRIVATE "${PROJECT_SOURCE_DIR}")
  if(TARGET termgate_source_net AND TARGET termgate_sqlite)
    target_sources(unit_cli PRIVATE unit/cli/support/hrana_client.cpp)
  endif()
  if(TARGET termgate_postgres)
    termgate_test(unit_storm_relay LABEL unit
      SOURCES unit/cli/storm/relay.cpp
      LIBRARIES termgate_command Termgate::fencing PkgConfig::LIBPQ fmt::fmt Threads::Threads)
    target_include_directories(unit_storm_relay PRIVATE "${PROJECT_SOURCE_DIR}")
  endif()
endif()
if(TARGET termgate_odbc)
  termgate_test(unit_odbc APART LABEL unit
    SOURCES
      unit/storage/odbc/connection_string.cpp
      unit/storage/odbc/errors.cpp
      unit/storage/odbc/statement_text.cpp
    LIBRARIES Termgate::odbc Termgate::sql)
  target_include_directories(unit_odbc PRIVATE "${PROJECT_SOURCE_DIR}/storage/odbc/src")
endif()
# The T-SQL of sql/sqlserver/, read without a server.
add_test(NAME unit_tsql_lint COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/unit/sql/tsql_lint.py" "${PROJECT_SOURCE_DIR}" --self)
set_tests_properties(unit_tsql_lint PROPERTIES LABELS unit TIMEOUT 300)

termgate_test(unit_text LABEL unit SOURCES unit/text/scanner.cpp unit/text/hex.cpp LIBRARIES termgate_options)
termgate_test(unit_port LABEL unit SOURCES unit/storage/port/connection_pool.cpp LIBRARIES Termgate::port Threads::Threads)
termgate_test(unit_testkit LABEL unit SOURCES unit/testkit/checker.cpp unit/testkit/leader.cpp LIBRARIES Termgate::testkit fmt::fmt Threads::Threads)
if(TARGET termgate_sqlite)
  target_sources(unit_testkit PRIVATE unit/testkit/lease_clock.cpp)
  # The same on SQLite whatever server there is; live_testkit has that.
  set_property(TEST unit_testkit APPEND PROPERTY ENVIRONMENT "TERMGATE_TEST_POSTGRESQL=")
endif()
if(TARGET termgate_sqlite)
  termgate_test(unit_leader_loop LABEL unit SOURCES unit/storage/leader_loop.cpp unit/storage/stats.cpp LIBRARIES Termgate::testkit Termgate::storage Threads::Threads)
  target_include_directories(unit_leader_loop PRIVATE "${PROJECT_SOURCE_DIR}")
  # The same on SQLite whatever server there is; live_leader_loop has that.
  set_property(TEST unit_leader_loop APPEND PROPERTY ENVIRONMENT "TERMGATE_TEST_POSTGRESQL=")
endif()
if(TARGET termgate_claim)
  find_package(OpenSSL 3 REQUIRED)
  termgate_test(unit_claim APART LABEL unit
    SOURCES unit/sqlite_server/claim/claim.cpp unit/sqlite_server/claim/jwt.cpp unit/sqlite_server/claim/token.cpp
    LIBRARIES Termgate::claim OpenSSL::Crypto)
endif()
if(TARGET termgate_hrana)
  termgate_test(unit_hrana APART LABEL unit
    SOURCES
      unit/sqlite_server/hrana/endpoints.cpp
      unit/sqlite_server/hrana/messages.cpp
      unit/sqlite_server/hrana/socket.cpp
      unit/sqlite_server/hrana/streams.cpp
    LIBRARIES Termgate::hrana Boost::json fmt::fmt Threads::Threads)
endif()
if(TARGET termgate_sqlite_front)
  termgate_test(unit_sqlite_front LABEL unit SOURCES unit/sqlite_server/front/workers.cpp LIBRARIES Termgate::sqlite_front Threads::Threads)
  target_include_directories(unit_sqlite_front PRIVATE "${PROJECT_SOURCE_DIR}/sqlite_server")
endif()
