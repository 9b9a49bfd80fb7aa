# The guard on servers of its own, where its library was built (sql/postgres/guard/CMakeLists.txt).
if(TARGET termgate_guard)
  get_target_property(library termgate_guard TERMGATE_LIBRARY)
  foreach(name IN ITEMS guard guard_attacks guard_append)
    termgate_pytest(live_${name} guard/${name}_test.py ENVIRONMENT "TERMGATE_GUARD=${library}")
  endforeach()
endif()
