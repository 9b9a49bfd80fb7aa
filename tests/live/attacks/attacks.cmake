# Attacks on the proxy from outside: a table of findings, and sessions of random messages. Both look only at what was committed.
if(TARGET termgate_pgwire)
  add_executable(live_attacker live/attacks/attacker.cpp)
  target_link_libraries(live_attacker PRIVATE Termgate::pgwire termgate_options Threads::Threads)
  if(TARGET termgate AND TARGET termgate_net AND TARGET termgate_authority AND TARGET termgate_postgres)
    add_test(NAME live_attack_random COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/live/attacks/attacker_test.py" $<TARGET_FILE:live_attacker> --seconds 20)
    # A thirty-second part of the table on 15, each row in one mode; with --long all of it on 13, 15 and 18.
    add_test(NAME live_findings COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/live/attacks/findings_test.py" --quick --part 1/48 --show)
    set_tests_properties(live_findings PROPERTIES LABELS live TIMEOUT 1800 ENVIRONMENT "TERMGATE=$<TARGET_FILE:termgate>")
    set_tests_properties(live_attack_random PROPERTIES LABELS live TIMEOUT 1500 ENVIRONMENT "TERMGATE=$<TARGET_FILE:termgate>")
  endif()
endif()
