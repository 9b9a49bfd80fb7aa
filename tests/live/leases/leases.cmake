# Who leads: termgate run and jobs, the handles of every language, services that use them.
if(TARGET termgate AND TARGET termgate_source_redis AND TARGET termgate_source_etcd AND TARGET termgate_source_zookeeper AND TARGET termgate_source_file AND TARGET termgate_sqlite)
  termgate_pytest(live_run_source)
endif()
if(TARGET termgate AND TARGET termgate_postgres AND TARGET termgate_sqlite)
  termgate_pytest(live_run TIMEOUT 3600)
  termgate_pytest(live_inherited live_jobs TIMEOUT 900)
  termgate_pytest(live_services TIMEOUT 600)
  # The clients of every language: no driver in common with the library, so their programs are built by the test.
  termgate_pytest(live_handles TIMEOUT 900)
  # Real time in five languages, so alone.
  set_tests_properties(live_handles PROPERTIES RUN_SERIAL ON)
  # Handles and commands under harm; 1,000 takeovers by fifty hosts are for by hand.
  add_executable(live_holder live/leases/holder.cpp)
  target_link_libraries(live_holder PRIVATE Termgate::storage fmt::fmt Threads::Threads)
  add_test(NAME live_inside COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/live/leases/inside.py" $<TARGET_FILE:live_holder> $<TARGET_FILE:termgate> "${CMAKE_CURRENT_SOURCE_DIR}/support/pg_server.sh")
  set_tests_properties(live_inside PROPERTIES LABELS live TIMEOUT 600)
endif()
if(TARGET termgate_postgres)
  termgate_test(live_testkit LABEL live TIMEOUT 120 NEEDS TERMGATE_TEST_POSTGRESQL SOURCES unit/testkit/lease_clock.cpp LIBRARIES Termgate::testkit Termgate::storage)
  termgate_test(live_leader_loop LABEL live TIMEOUT 300 NEEDS TERMGATE_TEST_POSTGRESQL SOURCES unit/storage/leader_loop.cpp LIBRARIES Termgate::testkit Termgate::storage Threads::Threads)
endif()
