# Installs the libraries, their headers, the command and the package files for find_package(Termgate). Component names are those of the packages.
include(CMakePackageConfigHelpers)
set(package_files ${CMAKE_INSTALL_LIBDIR}/cmake/Termgate)

if(TERMGATE_SHARED)
  foreach(library IN LISTS shared_libraries)
    set(header_sets "")
    get_target_property(sets ${library} TERMGATE_HEADER_SETS)
    foreach(set IN LISTS sets)
      list(APPEND header_sets FILE_SET ${set} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT libtermgate-dev)
    endforeach()
    install(TARGETS ${library} EXPORT TermgateTargets
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libtermgate0 NAMELINK_COMPONENT libtermgate-dev
      ${header_sets})
  endforeach()
  install(TARGETS termgate_testkit_installed EXPORT TermgateTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libtermgate-dev
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT libtermgate-dev)
else()
  set(modules termgate_fencing termgate_port termgate_sql termgate_storage termgate_testkit)
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
endif()

install(EXPORT TermgateTargets NAMESPACE Termgate:: DESTINATION ${package_files} COMPONENT libtermgate-dev)
configure_package_config_file(cmake/TermgateConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/TermgateConfig.cmake" INSTALL_DESTINATION ${package_files})
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/TermgateConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/TermgateConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/TermgateConfigVersion.cmake" DESTINATION ${package_files}
  COMPONENT libtermgate-dev)

# pkg-config, for the shared library only: pkg-config --cflags --libs termgate.
if(TERMGATE_SHARED)
  function(termgate_pkg_config name description requires libraries)
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY CONTENT [[prefix=@CMAKE_INSTALL_PREFIX@
libdir=${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: @name@
Description: @description@
Version: @PROJECT_VERSION@
Requires: @requires@
Libs: -L${libdir} @libraries@
Cflags: -I${includedir} -std=c++20
]])
    install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT libtermgate-dev)
  endfunction()
  termgate_pkg_config(termgate "Fencing at the write boundary" "" "-ltermgate")
  if(TARGET termgate_postgres_shared)
    termgate_pkg_config(termgate-postgresql "The check alone, on a libpqxx connection of your own" "termgate libpqxx" "-ltermgate-postgresql")
  endif()
  if(TARGET termgate_odbc_shared)
    termgate_pkg_config(termgate-odbc "The check alone, on an ODBC connection of your own" "termgate odbc" "-ltermgate-odbc")
  endif()
  if(TARGET termgate_sources_shared)
    termgate_pkg_config(termgate-sources "Terms from Redis, etcd, ZooKeeper, Consul, Kubernetes or a file" "termgate" "-ltermgate-sources")
  endif()
endif()

if(TARGET termgate)
  install(TARGETS termgate RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT termgate)
endif()
