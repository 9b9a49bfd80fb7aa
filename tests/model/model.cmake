# The guarantees as a model (docs/evidence/model.md). Exhaustive, so what it costs is processor time; --long visits the large sizes.
find_program(SPIN spin)
if(SPIN)
  add_test(NAME model COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/model/model_test.py")
  set_tests_properties(model PROPERTIES LABELS model TIMEOUT 1800)
endif()
# The locks of layer 1 on SQL Server: the T-SQL itself, run by a model of the server's locks.
add_test(NAME model_sqlserver_locks COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/model/sqlserver/locks_test.py")
set_tests_properties(model_sqlserver_locks PROPERTIES LABELS model TIMEOUT 3600)
