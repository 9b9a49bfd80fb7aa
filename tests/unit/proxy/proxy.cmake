if(TARGET termgate_pgwire)
  termgate_test(unit_pgwire LABEL unit
    SOURCES
      unit/proxy/pgwire_messages.cpp
      unit/proxy/pgwire_reader.cpp
      unit/proxy/pgwire_startup.cpp
    LIBRARIES Termgate::pgwire)
endif()
if(TARGET termgate_statements)
  # The oracles ask libpg_query themselves.
  add_library(termgate_statements_inside INTERFACE)
  target_include_directories(termgate_statements_inside INTERFACE "${PROJECT_SOURCE_DIR}/proxy/statements/src" "${CMAKE_CURRENT_SOURCE_DIR}/unit/proxy")
  target_include_directories(termgate_statements_inside SYSTEM INTERFACE "${PG_QUERY_INCLUDE}")
  target_link_libraries(termgate_statements_inside INTERFACE Termgate::statements "${PG_QUERY_LIBRARY}")
  termgate_test(unit_statements APART LABEL unit
    SOURCES
      unit/proxy/statements_classify.cpp
      unit/proxy/statements_declaration.cpp
      unit/proxy/statements_lexer.cpp
    LIBRARIES termgate_statements_inside Threads::Threads)
endif()
if(TARGET termgate_session)
  termgate_test(unit_session APART LABEL unit
    SOURCES
      unit/proxy/session_events.cpp
      unit/proxy/session_extended.cpp
      unit/proxy/session_login.cpp
      unit/proxy/session_simple.cpp
    LIBRARIES Termgate::session)
  # The decision and the parts that carry it out are inside the folder.
  termgate_test(unit_session_guard OPTIMIZED LABEL unit SOURCES unit/proxy/session_guard.cpp LIBRARIES Termgate::session)
  target_include_directories(unit_session_guard PRIVATE "${PROJECT_SOURCE_DIR}/proxy/session/src")
  termgate_test(unit_session_parts LABEL unit
    SOURCES
      unit/proxy/session_batch.cpp
      unit/proxy/session_claims.cpp
      unit/proxy/session_replies.cpp
      unit/proxy/session_transaction.cpp
    LIBRARIES Termgate::session)
  target_include_directories(unit_session_parts PRIVATE "${PROJECT_SOURCE_DIR}/proxy/session/src")
endif()
if(TARGET termgate_net)
  find_package(Boost 1.81 REQUIRED COMPONENTS json)
  termgate_test(unit_net LABEL unit
    SOURCES
      unit/proxy/net_books.cpp
      unit/proxy/net_log_metrics.cpp
      unit/proxy/net_options.cpp
      unit/proxy/net_proxy_protocol.cpp
    LIBRARIES Termgate::net Boost::json Threads::Threads)
  # How HTTP answers is inside the folder.
  target_include_directories(unit_net PRIVATE "${PROJECT_SOURCE_DIR}/proxy/net/src")
endif()
if(TARGET termgate_authority AND TARGET termgate_sqlite AND TARGET termgate_postgres)
  termgate_test(unit_authority LABEL unit
    SOURCES
      unit/proxy/authority_admission.cpp
      unit/proxy/authority_rules.cpp
      unit/proxy/authority_term_file.cpp
    LIBRARIES Termgate::authority Termgate::storage fmt::fmt Threads::Threads)
  target_include_directories(unit_authority PRIVATE "${PROJECT_SOURCE_DIR}/proxy/authority/src")
endif()
if(TARGET termgate_dialect)
  find_package(SQLite3 REQUIRED)
  termgate_test(unit_dialect LABEL unit
    SOURCES
      unit/proxy/dialect_oracle.cpp
      unit/proxy/dialect_tools.cpp
      unit/proxy/dialect_translate.cpp
    LIBRARIES Termgate::dialect SQLite::SQLite3 Threads::Threads)
  target_include_directories(unit_dialect PRIVATE "${PROJECT_SOURCE_DIR}/proxy/dialect/src" "${CMAKE_CURRENT_SOURCE_DIR}/unit/proxy")
  target_compile_definitions(unit_dialect PRIVATE TERMGATE_DIALECT_DATA="${CMAKE_CURRENT_SOURCE_DIR}/unit/proxy/dialect")
endif()

if(TARGET termgate_lite)
  # A session without its socket, its engine and its guard are inside the folder, and stand on the driver's parts.
  find_package(SQLite3 REQUIRED)
  add_library(termgate_lite_inside INTERFACE)
  target_include_directories(termgate_lite_inside INTERFACE "${PROJECT_SOURCE_DIR}/proxy/lite/src" "${PROJECT_SOURCE_DIR}/storage/sqlite/src")
  target_link_libraries(termgate_lite_inside INTERFACE Termgate::lite Termgate::sqlite Termgate::pgwire SQLite::SQLite3 fmt::fmt Threads::Threads)
  termgate_test(unit_lite APART LABEL unit SOURCES unit/proxy/lite_catalog.cpp unit/proxy/lite_functions.cpp unit/proxy/lite_guard.cpp unit/proxy/lite_session.cpp unit/proxy/lite_values.cpp LIBRARIES termgate_lite_inside)
  target_compile_definitions(unit_lite PRIVATE TERMGATE_LITE_DATA="${CMAKE_CURRENT_SOURCE_DIR}/unit/proxy/lite" TERMGATE_DIALECT_DATA="${CMAKE_CURRENT_SOURCE_DIR}/unit/proxy/dialect")
  # Once more with the shortcut for what reads a little: the answers are the same.
  add_test(NAME unit_lite_quickly COMMAND unit_lite "~functions:*")
  set_tests_properties(unit_lite_quickly PROPERTIES LABELS unit TIMEOUT 300 ENVIRONMENT TERMGATE_LITE_QUICKLY=1)
endif()
