# Attacks on the proxy from outside: a table of findings, and sessions of random messages. Both look only at what was committed.
if(TARGET termgate_pgwire)
  add_executable(live_attacker live/attacks/attacker.cpp)
  target_link_libraries(live_attacker PRIVATE Termgate::pgwire termgate_options Threads::Threads)
  if(TARGET termgate AND TARGET termgate_net AND TARGET termgate_authority AND TARGET termgate_postgres)
    # A database whose own code declares has no seats. So each test runs with that code, and once more with seats and without it.
    set(attacker "TERMGATE_ATTACKER=$<TARGET_FILE:live_attacker>")
    termgate_pytest(live_attack_random FILE attacker_test.py TIMEOUT 1500 OPTIONS --seconds 12 ENVIRONMENT ${attacker})
    termgate_pytest(live_attack_random_seats FILE attacker_test.py TIMEOUT 1500 OPTIONS --seconds 12 --seats eager ENVIRONMENT ${attacker})
    # A part of the table on 15, each row in one mode; with --long all of it on 13, 15 and 18.
    termgate_pytest(live_findings TIMEOUT 1800 OPTIONS --quick --part 1/16 --show)
    termgate_pytest(live_findings_seats FILE findings_test.py TIMEOUT 1800 OPTIONS --quick --part 9/32 --show --seats eager)
    if(guard_library)
      # The same table, where the proxy leaves the sessions to the guard.
      termgate_pytest(live_guard_findings FILE findings_test.py TIMEOUT 1800 OPTIONS --modes read-only --quick --part 5/48 --show
        ENVIRONMENT "TERMGATE_TEST_GUARD=${guard_library}")
    endif()
  endif()
endif()
# Two proxies in front of one SQLite file, random clients, kills and freezes.
if(TARGET termgate AND TARGET termgate_sqlite_front)
  termgate_pytest(live_hrana_attack FILE hrana_attacker_test.py TIMEOUT 1800 OPTIONS --seconds 20)
endif()
