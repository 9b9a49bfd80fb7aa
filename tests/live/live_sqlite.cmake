# Clients without a server of their own: the sqlite3 shell, Python, Node, and the command.
if(TARGET termgate_extension)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(command "")
  if(TARGET termgate)
    set(command $<TARGET_FILE:termgate>)
  endif()
  # A program without the sanitizer's runtime cannot load a sanitized extension.
  if(NOT TERMGATE_SANITIZE)
    add_test(NAME live_sqlite_extension COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/sqlite_extension_test.py" $<TARGET_FILE:termgate_extension> ${command})
    set_tests_properties(live_sqlite_extension PROPERTIES LABELS live SKIP_RETURN_CODE 77 TIMEOUT 300)
  endif()
endif()
