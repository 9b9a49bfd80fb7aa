if(TARGET termgate)
  add_test(NAME package_manual COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/package/manual_test.py" $<TARGET_FILE:termgate>)
  set_tests_properties(package_manual PROPERTIES LABELS package TIMEOUT 120)
  add_test(NAME package COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/package/package_test.sh" "${PROJECT_BINARY_DIR}" $<TARGET_FILE:termgate> "$<TARGET_OBJECTS:termgate_catch>")
  set_tests_properties(package PROPERTIES LABELS package TIMEOUT 300)
endif()

# The Debian packages: minutes, so with --long only. They are built by ./run package where build/packages is empty.
add_test(NAME package_debs COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/package/deb_library_test.sh" "${PROJECT_SOURCE_DIR}/build/packages")
set_tests_properties(package_debs PROPERTIES LABELS "package;long" SKIP_RETURN_CODE 77 TIMEOUT 2400 FIXTURES_SETUP debs)
add_test(NAME package_debs_in_a_fresh_root COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/package/deb_root_test.sh" "${PROJECT_SOURCE_DIR}/build/packages")
set_tests_properties(package_debs_in_a_fresh_root PROPERTIES LABELS "package;long" SKIP_RETURN_CODE 77 TIMEOUT 1800 FIXTURES_REQUIRED debs)
add_test(NAME package_debs_again COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/package/deb_reproducible_test.sh" "${PROJECT_SOURCE_DIR}/build/packages")
set_tests_properties(package_debs_again PROPERTIES LABELS "package;long" SKIP_RETURN_CODE 77 TIMEOUT 2400 FIXTURES_REQUIRED debs)
