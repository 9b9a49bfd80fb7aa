# The guard on servers of its own, where its library was built (sql/postgres/guard/CMakeLists.txt).
if(TARGET termgate_guard)
  get_target_property(library termgate_guard TERMGATE_LIBRARY)
  foreach(name IN ITEMS guard guard_attacks guard_append)
    add_test(NAME live_${name} COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/live/guard/${name}_test.py" --library "${library}")
    set_tests_properties(live_${name} PROPERTIES LABELS live TIMEOUT 300)
  endforeach()
  if(TARGET termgate AND TARGET termgate_net)
    # Debian's Python has pytest.
    add_test(NAME live_guard_proxy COMMAND /usr/bin/python3 -m pytest -q -p no:cacheprovider "${CMAKE_CURRENT_SOURCE_DIR}/live/guard/guard_proxy_test.py")
    set_tests_properties(live_guard_proxy PROPERTIES LABELS live TIMEOUT 300 ENVIRONMENT "TERMGATE=$<TARGET_FILE:termgate>;TERMGATE_GUARD=${library}")
    # The proxy's table of attacks, with the guard behind it.
    add_test(NAME live_guard_findings COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/live/attacks/findings_test.py" --modes read-only --quick --part 7/96 --show)
    set_tests_properties(live_guard_findings PROPERTIES LABELS live TIMEOUT 1800 ENVIRONMENT "TERMGATE=$<TARGET_FILE:termgate>;TERMGATE_TEST_GUARD=${library}")
  endif()
endif()
