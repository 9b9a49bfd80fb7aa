# Installs the libraries, their headers, the command and the package files for find_package(Termgate).
include(CMakePackageConfigHelpers)

set(modules termgate_fencing termgate_sql termgate_storage termgate_testkit)
foreach(driver IN ITEMS termgate_postgres termgate_sqlite termgate_odbc)
  if(TARGET ${driver})
    list(APPEND modules ${driver})
  endif()
endforeach()

if(TARGET termgate_sources)
  list(APPEND modules termgate_sources termgate_source_net)
  foreach(service IN ITEMS redis etcd zookeeper consul kubernetes file)
    if(TARGET termgate_source_${service})
      list(APPEND modules termgate_source_${service})
    endif()
  endforeach()
endif()

# One name for users: Termgate::termgate.
add_library(termgate_all INTERFACE)
add_library(Termgate::termgate ALIAS termgate_all)
set_target_properties(termgate_all PROPERTIES EXPORT_NAME termgate)
target_link_libraries(termgate_all INTERFACE termgate_storage termgate_fencing)

foreach(module IN LISTS modules)
  if(module STREQUAL termgate_sql)
    install(TARGETS ${module} EXPORT TermgateTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  else()
    install(TARGETS ${module} EXPORT TermgateTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  endif()
endforeach()
install(TARGETS termgate_all EXPORT TermgateTargets)
install(EXPORT TermgateTargets NAMESPACE Termgate:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Termgate)
configure_package_config_file(cmake/TermgateConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/TermgateConfig.cmake"
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Termgate)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/TermgateConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/TermgateConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/TermgateConfigVersion.cmake"
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Termgate)
if(TARGET termgate)
  install(TARGETS termgate RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
