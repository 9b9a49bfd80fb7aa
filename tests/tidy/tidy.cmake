
add_test(NAME tidy COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/tidy/tidy.py")
set_tests_properties(tidy PROPERTIES LABELS tidy TIMEOUT 60)
add_test(NAME format COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/tidy/format.py")
set_tests_properties(format PROPERTIES LABELS tidy TIMEOUT 240)
add_test(NAME forge COMMAND "${TERMGATE_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/tidy/forge.py")
set_tests_properties(forge PROPERTIES LABELS tidy TIMEOUT 60)
# promtool checks the rules too, where it is installed (Debian: prometheus).
add_test(NAME alerts COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/tidy/alerts.py")
set_tests_properties(alerts PROPERTIES LABELS tidy TIMEOUT 60)
# clang-tidy on the sources that changed: minutes, so with --long only.
add_test(NAME lint COMMAND sh -c "[ -n \"$TERMGATE_TEST_LONG\" ] && command -v clang-tidy >/dev/null || exit 77; exec \"$0\"" "${PROJECT_SOURCE_DIR}/tools/lint.sh")
set_tests_properties(lint PROPERTIES LABELS "tidy;long" SKIP_RETURN_CODE 77 TIMEOUT 900)
# Every public header compiles by itself: a minute of both cores, so with --long only.
add_test(NAME headers COMMAND sh -c "[ -n \"$TERMGATE_TEST_LONG\" ] || exit 77; exec \"$0\" \"$@\"" "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}" --target all_verify_interface_header_sets)
set_tests_properties(headers PROPERTIES LABELS "tidy;long" SKIP_RETURN_CODE 77 TIMEOUT 300)
