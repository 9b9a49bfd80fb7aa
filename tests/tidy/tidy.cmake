
add_test(NAME tidy COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/tidy/tidy.py")
set_tests_properties(tidy PROPERTIES LABELS tidy TIMEOUT 60)
