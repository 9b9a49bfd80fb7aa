# Who reads a stream from where it left off. 30,000 writes a database; a million with --long.
if(TARGET termgate AND TARGET termgate_postgres AND TARGET termgate_sqlite)
  termgate_pytest(live_follow)
  add_executable(live_followers live/followers/followers.cpp)
  target_link_libraries(live_followers PRIVATE Termgate::storage fmt::fmt Threads::Threads)
  add_test(NAME live_followers COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/support/own_server.sh" $<TARGET_FILE:live_followers>)
  set_tests_properties(live_followers PROPERTIES LABELS live SKIP_RETURN_CODE 77 TIMEOUT 1800)
endif()
