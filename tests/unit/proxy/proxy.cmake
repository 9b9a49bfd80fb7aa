if(TARGET termgate_pgwire)
  termgate_test(unit_pgwire LABEL unit
    SOURCES
      unit/wire/pgwire/messages.cpp
      unit/wire/pgwire/reader.cpp
      unit/wire/pgwire/startup.cpp
    LIBRARIES Termgate::pgwire)
endif()
if(TARGET termgate_tds)
  termgate_test(unit_tds LABEL unit
    SOURCES
      unit/wire/tds/browser.cpp
      unit/wire/tds/login.cpp
      unit/wire/tds/packet.cpp
      unit/wire/tds/request.cpp
      unit/wire/tds/token.cpp
    LIBRARIES Termgate::tds)
  target_compile_definitions(unit_tds PRIVATE TERMGATE_TDS_SEEDS="${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus")
endif()
if(TARGET termgate_tds_session)
  termgate_test(unit_tds_session LABEL unit
    SOURCES
      unit/proxy/sqlserver/carriers.cpp
      unit/proxy/sqlserver/session.cpp
      unit/proxy/sqlserver/text.cpp
    LIBRARIES Termgate::tds_session)
  target_include_directories(unit_tds_session PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
endif()
if(TARGET termgate_statements)
  # The oracles ask libpg_query themselves.
  add_library(termgate_statements_inside INTERFACE)
  target_include_directories(termgate_statements_inside INTERFACE "${PROJECT_SOURCE_DIR}/proxy/statements/src" "${CMAKE_CURRENT_SOURCE_DIR}")
  target_include_directories(termgate_statements_inside SYSTEM INTERFACE "${PG_QUERY_INCLUDE}")
  target_link_libraries(termgate_statements_inside INTERFACE Termgate::statements "${PG_QUERY_LIBRARY}")
  termgate_test(unit_statements APART LABEL unit
    SOURCES
      unit/proxy/statements/classify.cpp
      unit/proxy/statements/declaration.cpp
      unit/proxy/statements/lexer.cpp
    LIBRARIES termgate_statements_inside Threads::Threads)
endif()
if(TARGET termgate_pg_session)
  termgate_test(unit_pg_session APART LABEL unit
    SOURCES
      unit/proxy/postgres/events.cpp
      unit/proxy/postgres/extended.cpp
      unit/proxy/postgres/login.cpp
      unit/proxy/postgres/seat.cpp
      unit/proxy/postgres/server_guard.cpp
      unit/proxy/postgres/simple.cpp
    LIBRARIES Termgate::pg_session)
  # The decision and the parts that carry it out are inside the folder.
  termgate_test(unit_pg_session_guard OPTIMIZED LABEL unit SOURCES unit/proxy/postgres/guard.cpp LIBRARIES Termgate::pg_session)
  target_include_directories(unit_pg_session_guard PRIVATE "${PROJECT_SOURCE_DIR}/proxy/postgres/src")
  termgate_test(unit_pg_session_parts LABEL unit
    SOURCES
      unit/proxy/postgres/claims.cpp
      unit/proxy/postgres/replies.cpp
      unit/proxy/postgres/transaction.cpp
    LIBRARIES Termgate::pg_session)
  target_include_directories(unit_pg_session_parts PRIVATE "${PROJECT_SOURCE_DIR}/proxy/postgres/src")
endif()
if(TARGET termgate_net)
  find_package(Boost 1.81 REQUIRED COMPONENTS json)
  termgate_test(unit_net LABEL unit
    SOURCES
      unit/proxy/net/books.cpp
      unit/proxy/net/log_metrics.cpp
      unit/proxy/net/options.cpp
      unit/proxy/net/proxy_protocol.cpp
    LIBRARIES Termgate::net Boost::json Threads::Threads)
  # How HTTP answers is inside the folder.
  target_include_directories(unit_net PRIVATE "${PROJECT_SOURCE_DIR}/proxy/net/src")
endif()
if(TARGET termgate_authority AND TARGET termgate_sqlite AND TARGET termgate_postgres)
  termgate_test(unit_authority LABEL unit
    SOURCES
      unit/proxy/authority/admission.cpp
      unit/proxy/authority/rules.cpp
      unit/proxy/authority/sources.cpp
      unit/proxy/authority/term_file.cpp
    LIBRARIES Termgate::authority Termgate::storage fmt::fmt Threads::Threads)
  target_include_directories(unit_authority PRIVATE "${PROJECT_SOURCE_DIR}/proxy/authority/src")
endif()
