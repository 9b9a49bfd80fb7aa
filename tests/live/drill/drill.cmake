# Services in Python load the extension, which one without the sanitizer's runtime cannot. Real time, so alone.
if(TARGET termgate AND TARGET termgate_postgres AND TARGET termgate_extension AND NOT TERMGATE_SANITIZE)
  termgate_pytest(live_drill TIMEOUT 600)
endif()
