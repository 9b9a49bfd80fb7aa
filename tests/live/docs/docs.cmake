# What the pages print is what programs do.
if(TARGET termgate AND TARGET termgate_postgres)
  termgate_pytest(live_docs)
  termgate_pytest(live_docs_pages OWN_SERVER TIMEOUT 180 ENVIRONMENT "TERMGATE_GUARD=${guard_library}")
  if(TARGET termgate_net AND TARGET termgate_authority)
    # The pages of docs/reference/ against --help, /metrics, and the tree.
    termgate_pytest(live_reference OWN_SERVER TIMEOUT 120)
  endif()
endif()
