# Who reads a stream from where it left off.
if(TARGET termgate AND TARGET termgate_postgres AND TARGET termgate_sqlite)
  termgate_pytest(live_follow)
endif()
