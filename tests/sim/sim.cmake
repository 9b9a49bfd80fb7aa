# Virtual time and seeded networks. --long (TERMGATE_TEST_LONG) plays a hundred times as many histories.
if(TARGET termgate_session)
  add_executable(sim_sessions sim/sessions.cpp)
  target_link_libraries(sim_sessions PRIVATE termgate_options Termgate::session)
  target_include_directories(sim_sessions PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  add_test(NAME sim_sessions COMMAND sim_sessions)
  set_tests_properties(sim_sessions PROPERTIES LABELS sim TIMEOUT 1800)
endif()
