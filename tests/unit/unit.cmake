if(TARGET termgate_postgres)
  termgate_test(unit_postgres LABEL unit
    SOURCES
      unit/storage/postgres_conninfo.cpp
      unit/storage/postgres_errors.cpp
      unit/storage/postgres_redact.cpp
      unit/storage/postgres_schema.cpp
      unit/storage/postgres_statement_text.cpp
      unit/storage/postgres_watchdog.cpp
    LIBRARIES Termgate::postgres)
  target_include_directories(unit_postgres PRIVATE "${PROJECT_SOURCE_DIR}/storage/postgres/src")
endif()
if(TARGET termgate_sqlite)
  find_package(SQLite3 REQUIRED)
  termgate_test(unit_sqlite LABEL unit
    SOURCES
      unit/storage/sqlite_driver.cpp
      unit/storage/sqlite_errors.cpp
      unit/storage/sqlite_law.cpp
      unit/storage/sqlite_power_loss.cpp
      unit/storage/sqlite_protect.cpp
      unit/storage/sqlite_write_queue.cpp
    LIBRARIES Termgate::sqlite Termgate::sql SQLite::SQLite3 Threads::Threads)
  target_include_directories(unit_sqlite PRIVATE "${PROJECT_SOURCE_DIR}/storage/sqlite/src")
endif()
if(TARGET termgate)
  termgate_test(unit_cli LABEL unit
    SOURCES unit/cli/secrets.cpp unit/cli/storm_log.cpp "${PROJECT_SOURCE_DIR}/cli/secrets.cpp" "${PROJECT_SOURCE_DIR}/cli/storm_log.cpp"
    LIBRARIES Termgate::fencing Termgate::testkit fmt::fmt Threads::Threads)
  target_include_directories(unit_cli PRIVATE "${PROJECT_SOURCE_DIR}")
endif()

termgate_test(unit_testkit LABEL unit SOURCES unit/testkit/checker.cpp LIBRARIES Termgate::testkit fmt::fmt)
