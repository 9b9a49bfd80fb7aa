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
