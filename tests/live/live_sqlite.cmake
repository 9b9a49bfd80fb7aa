# Clients without a server of their own: the sqlite3 shell, Python, Node, and the command.
if(TARGET termgate_extension)
  # A program without the sanitizer's runtime cannot load a sanitized extension.
  if(NOT TERMGATE_SANITIZE)
    termgate_pytest(live_sqlite_extension sqlite_extension_test.py)
    if(TARGET termgate)
      termgate_pytest(live_preload preload_test.py)
    endif()
  endif()
endif()
if(TARGET termgate_sqlite)
  termgate_test(live_sqlite_kill LABEL live TIMEOUT 120 SOURCES live/sqlite_kill.cpp LIBRARIES Termgate::storage Threads::Threads)
endif()
