# The guard on servers of its own, where its library was built (guard/CMakeLists.txt).
if(TARGET termgate_guard)
  get_target_property(library termgate_guard TERMGATE_LIBRARY)
  foreach(name IN ITEMS guard guard_attacks guard_append guard_shortcuts guard_moves guard_declares)
    termgate_pytest(live_${name} guard/${name}_test.py ENVIRONMENT "TERMGATE_GUARD=${library}")
  endforeach()
  if(TARGET termgate AND TARGET termgate_net)
    termgate_pytest(live_guard_proxy guard/guard_proxy_test.py ENVIRONMENT "TERMGATE_GUARD=${library}")
    # The proxy's table of attacks, where the proxy leaves the sessions to the guard.
    termgate_pytest(live_guard_findings attacks/findings_test.py TIMEOUT 1800 OPTIONS --modes read-only --quick --part 7/96 --show
      ENVIRONMENT "TERMGATE_TEST_GUARD=${library}")
  endif()
endif()
