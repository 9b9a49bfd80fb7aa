# The guard on servers of its own, where its library was built (guard/CMakeLists.txt).
if(guard_library)
  termgate_pytest(live_guard live_guard_attacks live_guard_append live_guard_shortcuts live_guard_moves live_guard_declares
    ENVIRONMENT "TERMGATE_GUARD=${guard_library}")
  if(TARGET termgate AND TARGET termgate_net)
    termgate_pytest(live_guard_proxy ENVIRONMENT "TERMGATE_GUARD=${guard_library}")
  endif()
endif()
