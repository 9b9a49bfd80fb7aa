# What real clients of the proxy for PostgreSQL see, a frozen one, a killed proxy, hostile input. Each starts its own servers; --long (./test --long)
# does more of each. [F6] bypasses: every row of docs/evidence/bypasses.md. [F7] difference: what a client sees, against a direct connection.
if(TARGET termgate AND TARGET termgate_net AND TARGET termgate_authority AND TARGET termgate_postgres)
  termgate_pytest(live_proxy_net)
  foreach(what access_mode clients databases f4 kill hostile operator seats seats_stress servers replication service term_file)
    termgate_pytest(live_proxy_${what} TIMEOUT 1200)
  endforeach()
  termgate_pytest(live_proxy_bypasses live_proxy_difference TIMEOUT 1500)
  termgate_pytest(live_proxy_difference_seats FILE proxy_difference_test.py TIMEOUT 1500 OPTIONS --seats eager)
  if(TARGET termgate_source_redis)
    termgate_pytest(live_proxy_source)
  endif()
endif()
if(TARGET termgate_authority AND TARGET termgate_postgres)
  termgate_test(live_proxy_authority OWN_SERVER LABEL live TIMEOUT 300 NEEDS TERMGATE_TEST_POSTGRESQL
    SOURCES live/proxy/proxy_authority.cpp
    LIBRARIES Termgate::authority Termgate::storage PkgConfig::LIBPQ Threads::Threads)
endif()
