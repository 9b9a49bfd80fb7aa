# Layer 1 on a real PostgreSQL, as anybody with SQL meets it: libpq only, every step forced.
if(TARGET termgate_postgres)
  termgate_test(live_postgres APART OWN_SERVER LABEL live TIMEOUT 900 NEEDS TERMGATE_TEST_POSTGRESQL
    SOURCES
      live/postgres/pg_fence.cpp live/postgres/pg_hand_over.cpp live/postgres/pg_library_seats.cpp
      live/postgres/pg_evict.cpp live/postgres/pg_protect.cpp live/postgres/pg_many_scopes.cpp live/postgres/pg_proxy.cpp
      live/postgres/pg_settings.cpp live/postgres/pg_takeover.cpp live/postgres/pg_protect_parents.cpp
      live/postgres/pg_verify.cpp
    LIBRARIES Termgate::storage PkgConfig::LIBPQ)
  termgate_test(live_pg_schedules LABEL live TIMEOUT 1800 NEEDS TERMGATE_TEST_POSTGRESQL SOURCES live/postgres/pg_schedules.cpp LIBRARIES Termgate::storage PkgConfig::LIBPQ Threads::Threads)
  termgate_test(live_pg_faults APART OWN_SERVER LABEL live TIMEOUT 600 NEEDS TERMGATE_TEST_POSTGRESQL
    SOURCES live/postgres/pg_faults.cpp support/fault_proxy.cpp
    LIBRARIES Termgate::storage PkgConfig::LIBPQ Threads::Threads)
  target_compile_definitions(live_pg_faults PRIVATE TERMGATE_TEST_PG_SERVER="${CMAKE_CURRENT_SOURCE_DIR}/support/pg_server.sh")
  if(TARGET termgate_statements)
    termgate_test(live_pg_read_only OWN_SERVER LABEL live TIMEOUT 900 NEEDS TERMGATE_TEST_POSTGRESQL SOURCES live/postgres/pg_read_only.cpp LIBRARIES Termgate::statements PkgConfig::LIBPQ)
    target_compile_definitions(live_pg_read_only PRIVATE TERMGATE_TEST_CORPUS="${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/statements")
    # Reads the functions of layer 1 with libpg_query itself.
    termgate_test(live_pg_names LABEL live NEEDS TERMGATE_TEST_POSTGRESQL SOURCES live/postgres/pg_names.cpp LIBRARIES Termgate::storage PkgConfig::LIBPQ Boost::json "${PG_QUERY_LIBRARY}")
    target_include_directories(live_pg_names SYSTEM PRIVATE "${PG_QUERY_INCLUDE}")
  endif()
  if(TARGET termgate)
    termgate_pytest(live_pg_require)
    termgate_pytest(live_pg_locks live_pgbouncer TIMEOUT 120)
    termgate_pytest(live_init_script TIMEOUT 600)
    termgate_pytest(live_pg_restore TIMEOUT 600)
    termgate_pytest(live_pg_squatters live_pg_adopt live_pg_rights live_pg_seats TIMEOUT 900)
    # 100 failovers of a cluster of three nodes and etcd; with --long only.
    termgate_pytest(live_patroni LABELS live long TIMEOUT 3400)
  endif()
endif()
