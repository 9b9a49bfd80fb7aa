# The ODBC layer itself, through odbc-postgresql and libsqliteodbc, and the commands that use it.
if(TARGET termgate_odbc AND TARGET termgate_postgres)
  termgate_test(live_odbc APART OWN_SERVER LABEL live TIMEOUT 300 NEEDS TERMGATE_TEST_POSTGRESQL
    SOURCES live/odbc/odbc_layer.cpp live/odbc/odbc_check.cpp support/fault_proxy.cpp
    LIBRARIES Termgate::storage Termgate::odbc PkgConfig::LIBPQ Threads::Threads)
  target_include_directories(live_odbc PRIVATE "${PROJECT_SOURCE_DIR}/storage/odbc/src")
  if(TARGET termgate)
    # Real time, so alone. Also on SQL Server, where TERMGATE_TEST_SQLSERVER names one.
    termgate_pytest(live_odbc_commands TIMEOUT 1800)
  endif()
endif()
