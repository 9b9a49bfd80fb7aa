# The guard on servers of its own, where its library was built (sql/postgres/guard/CMakeLists.txt).
if(TARGET termgate_guard)
  get_target_property(library termgate_guard TERMGATE_LIBRARY)
  foreach(name IN ITEMS guard guard_attacks guard_append)
    add_test(NAME live_${name} COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/live/guard/${name}_test.py" --library "${library}")
    set_tests_properties(live_${name} PROPERTIES LABELS live TIMEOUT 300)
  endforeach()
endif()
