# Layer 1 on a real PostgreSQL, as anybody with SQL meets it: libpq only, every step forced.
if(TARGET termgate_postgres)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(LIBPQ REQUIRED IMPORTED_TARGET libpq)
  termgate_test(live_postgres APART OWN_SERVER LABEL live TIMEOUT 900 NEEDS TERMGATE_TEST_POSTGRESQL
    SOURCES live/pg_patterns.cpp live/pg_fence.cpp live/pg_hand_over.cpp live/pg_library_seats.cpp live/pg_evict.cpp live/pg_protect.cpp live/pg_many_scopes.cpp live/pg_proxy.cpp live/pg_upgrade.cpp live/pg_settings.cpp live/pg_takeover.cpp live/pg_protect_parents.cpp live/pg_messages.cpp live/pg_verify.cpp
    LIBRARIES Termgate::storage PkgConfig::LIBPQ)
  target_compile_definitions(live_postgres PRIVATE TERMGATE_TEST_FIXTURES="${CMAKE_CURRENT_SOURCE_DIR}/live/fixtures")
  termgate_test(live_testkit LABEL live TIMEOUT 120 NEEDS TERMGATE_TEST_POSTGRESQL SOURCES unit/testkit/lease_clock.cpp LIBRARIES Termgate::testkit Termgate::storage)
  termgate_test(live_leader_loop LABEL live TIMEOUT 300 NEEDS TERMGATE_TEST_POSTGRESQL SOURCES unit/storage/leader_loop.cpp LIBRARIES Termgate::testkit Termgate::storage Threads::Threads)
  if(TARGET termgate_authority)
    termgate_test(live_proxy_authority OWN_SERVER LABEL live TIMEOUT 300 NEEDS TERMGATE_TEST_POSTGRESQL
      SOURCES live/proxy_authority.cpp
      LIBRARIES Termgate::authority Termgate::storage PkgConfig::LIBPQ Threads::Threads)
  endif()
  termgate_pytest(live_pg_crash pg_crash_test.py)
endif()
