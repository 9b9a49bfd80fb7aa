if(TARGET termgate)
  add_test(NAME package COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/package/package_test.sh" "${PROJECT_BINARY_DIR}" $<TARGET_FILE:termgate> "$<TARGET_OBJECTS:termgate_catch>")
  set_tests_properties(package PROPERTIES LABELS package TIMEOUT 300)
endif()
