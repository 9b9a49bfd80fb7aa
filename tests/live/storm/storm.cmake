# Storms, starting servers of their own; real time, so alone.
if(TARGET termgate AND TARGET termgate_postgres)
  termgate_pytest(live_verify_history TIMEOUT 120)
  if(TARGET termgate_sqlite)
    termgate_pytest(live_storm TIMEOUT 1800)
    # Half an hour of storms: with --long only.
    termgate_pytest(live_storm_million LABELS live long TIMEOUT 3000)
    if(TERMGATE_PLANT STREQUAL "all" AND TARGET termgate_net AND TARGET termgate_authority)
      # Minutes of storms: with --long only.
      termgate_pytest(live_planted LABELS live long TIMEOUT 1800 ENVIRONMENT "TERMGATE_ATTACKER=$<TARGET_FILE:live_attacker>")
    endif()
  endif()
endif()
