
add_test(NAME tidy COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/tidy/tidy.py")
set_tests_properties(tidy PROPERTIES LABELS tidy TIMEOUT 60)
# Every public header compiles by itself.
add_test(NAME headers COMMAND "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}" --target all_verify_interface_header_sets)
set_tests_properties(headers PROPERTIES LABELS tidy TIMEOUT 300)
