# Debian packages by CPack: ./run package. One component a package; the install rules elsewhere name the same components.
set(packages termgate libtermgate0 libtermgate-dev termgate-sqlite-extension)
set(package_data "${PROJECT_BINARY_DIR}/package_files")
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# A commit without a tag gets a version of its own (packaging/version.sh), and so does a build for a Debian release other than 12
# (packaging/root.sh).
set(package_version "${PROJECT_VERSION}")
if(NOT "$ENV{TERMGATE_PACKAGE_VERSION}" STREQUAL "")
  set(package_version "$ENV{TERMGATE_PACKAGE_VERSION}")
endif()

# The guard and its shortcuts, for Debian's own PostgreSQL (guard/CMakeLists.txt). PGXS keeps the debugging information, and CPack does not
# strip what is installed as a file, so both are stripped here.
set(guard_package postgresql-${TERMGATE_GUARD_MAJOR}-termgate)
if(TARGET termgate_guard)
  get_target_property(guard_library termgate_guard TERMGATE_LIBRARY)
  get_filename_component(guard_build "${guard_library}" DIRECTORY)
  foreach(library termgate_guard termgate_shortcuts)
    add_custom_command(OUTPUT "${guard_build}/stripped/${library}.so"
      COMMAND "${CMAKE_COMMAND}" -E make_directory "${guard_build}/stripped"
      COMMAND "${CMAKE_STRIP}" --strip-unneeded -o "${guard_build}/stripped/${library}.so" "${guard_build}/${library}.so"
      DEPENDS termgate_guard "${guard_build}/${library}.so" VERBATIM)
    list(APPEND stripped "${guard_build}/stripped/${library}.so")
  endforeach()
  add_custom_target(termgate_guard_package ALL DEPENDS ${stripped})
  install(FILES ${stripped} DESTINATION lib/postgresql/${TERMGATE_GUARD_MAJOR}/lib COMPONENT ${guard_package})
  install(FILES guard/termgate_guard.control guard/termgate_guard--1.0.sql DESTINATION share/postgresql/${TERMGATE_GUARD_MAJOR}/extension COMPONENT ${guard_package})
  list(APPEND packages ${guard_package})
endif()

# Man pages and completions come from the command itself. A cross build cannot run it: -DTERMGATE_HELP_JSON=FILE, from `termgate --help --json` elsewhere.
set(TERMGATE_HELP_JSON "" CACHE FILEPATH "What `termgate --help --json` printed, where the command that is built cannot run here")
if(TERMGATE_HELP_JSON)
  set(help_source --json "${TERMGATE_HELP_JSON}")
else()
  set(help_source "$<TARGET_FILE:termgate>")
endif()
file(GLOB_RECURSE package_pages CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/*")
add_custom_command(OUTPUT "${package_data}/stamp"
  COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/packaging/files.py" "${package_version}" "${package_data}" "${PROJECT_SOURCE_DIR}/CHANGELOG.md" ${help_source} -- ${packages}
  COMMAND "${CMAKE_COMMAND}" -E touch "${package_data}/stamp"
  DEPENDS termgate packaging/files.py packaging/manual.py CHANGELOG.md README.md ${package_pages} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" COMMENT "Making man pages and completions" VERBATIM)
add_custom_target(termgate_package_files ALL DEPENDS "${package_data}/stamp")

foreach(package IN LISTS packages)
  install(FILES "${package_data}/changelog/${package}/changelog.gz" packaging/debian/copyright DESTINATION share/doc/${package} COMPONENT ${package})
endforeach()
install(DIRECTORY "${package_data}/man/" DESTINATION share/man/man1 COMPONENT termgate FILES_MATCHING PATTERN "*.gz")
install(FILES "${package_data}/CHANGELOG.md.gz" DESTINATION share/doc/termgate COMPONENT termgate)
# The pages keep the folders of the repository, so that their links hold.
install(DIRECTORY "${package_data}/doc/" DESTINATION share/doc/termgate COMPONENT termgate)
install(DIRECTORY packaging/prometheus packaging/grafana DESTINATION share/doc/termgate/packaging COMPONENT termgate)
install(FILES packaging/debian/rules.example DESTINATION share/doc/termgate/examples RENAME rules COMPONENT termgate)
install(FILES "${package_data}/completions/termgate.bash" DESTINATION share/bash-completion/completions RENAME termgate COMPONENT termgate)
install(FILES "${package_data}/completions/_termgate" DESTINATION share/zsh/vendor-completions COMPONENT termgate)
install(FILES "${package_data}/completions/termgate.fish" DESTINATION share/fish/vendor_completions.d COMPONENT termgate)
foreach(unit IN ITEMS proxy admin)
  install(FILES packaging/systemd/termgate-${unit}.service packaging/systemd/termgate-${unit}.socket DESTINATION lib/systemd/system COMPONENT termgate)
endforeach()
install(FILES packaging/systemd/termgate.sysusers DESTINATION lib/sysusers.d RENAME termgate.conf COMPONENT termgate)
install(FILES packaging/debian/proxy.conf DESTINATION /etc/termgate COMPONENT termgate)
install(FILES packaging/debian/termgate-admin.default DESTINATION /etc/default RENAME termgate-admin COMPONENT termgate)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME termgate)
set(CPACK_PACKAGE_VENDOR "Termgate")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGE_VERSION "${package_version}")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_SOURCE_DIR}/build/packages")
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL ${packages})
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
if(DEFINED ENV{DEBEMAIL})
  set(CPACK_DEBIAN_PACKAGE_MAINTAINER "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
else()
  set(CPACK_DEBIAN_PACKAGE_MAINTAINER "Termgate maintainers <maintainers@termgate.example>")
endif()
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)

# termgate_package(<package> <section> <synopsis> <text> [DEPENDS …] [SUGGESTS …] [CONTROL …])
function(termgate_package name section synopsis text)
  cmake_parse_arguments(PACKAGE "" "DEPENDS;SUGGESTS" "CONTROL" ${ARGN})
  string(TOUPPER "${name}" upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${synopsis}\n${text}" PARENT_SCOPE)
  foreach(field IN ITEMS DEPENDS SUGGESTS)
    set(CPACK_DEBIAN_${upper}_PACKAGE_${field} "${PACKAGE_${field}}" PARENT_SCOPE)
  endforeach()
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA "${PACKAGE_CONTROL}" PARENT_SCOPE)
endfunction()
set(control "${PROJECT_SOURCE_DIR}/packaging/debian/control")
set(shlibs "")
foreach(file IN ITEMS libtermgate libtermgate-postgresql libtermgate-odbc libtermgate-sources)
  string(APPEND shlibs "${file} ${PROJECT_VERSION_MAJOR} libtermgate0 (>= ${package_version})\n")
endforeach()
file(WRITE "${package_data}/shlibs" "${shlibs}")
file(WRITE "${package_data}/triggers" "activate-noawait ldconfig\n")
file(WRITE "${package_data}/conffiles" "/etc/termgate/proxy.conf\n/etc/default/termgate-admin\n")
termgate_package(termgate database "fencing tokens that the database enforces: command and services"
  "A database refuses a write whose term (fencing token) is lower than the
highest one that it accepted for the scope of the write. So a leader that was
paused and replaced cannot write late.
.
This package has the command termgate, which installs the check into
PostgreSQL, SQLite or SQL Server, holds leases and runs programs under them,
and the services termgate-proxy and termgate-admin."
  DEPENDS "procps, systemd | systemd-standalone-sysusers | systemd-sysusers" SUGGESTS "${guard_package}, termgate-sqlite-extension"
  CONTROL "${package_data}/conffiles" "${control}/postinst" "${control}/prerm" "${control}/postrm")
termgate_package(libtermgate0 libs "fencing tokens that the database enforces: shared library"
  "The C++ library of Termgate: leases, fenced writes, leader election, on
SQLite, PostgreSQL and SQL Server. The drivers of PostgreSQL and SQL Server are
loaded when a program first opens such a database."
  CONTROL "${package_data}/shlibs" "${package_data}/triggers")
termgate_package(libtermgate-dev libdevel "fencing tokens that the database enforces: development files"
  "Headers, the CMake package Termgate, pkg-config files and the testkit of the
C++20 library."
  DEPENDS "libtermgate0 (= ${package_version}), libfmt-dev, libpq-dev, libpqxx-dev, unixodbc-dev, pkg-config")
termgate_package(termgate-sqlite-extension database "fencing tokens that the database enforces: extension of SQLite"
  "A loadable extension that gives the functions of Termgate to the sqlite3
shell and to programs in any language that load SQLite, and a library that
LD_PRELOAD puts into programs that nobody can change."
  SUGGESTS "sqlite3")
termgate_package(${guard_package} database "fencing tokens that the database enforces: guard for PostgreSQL ${TERMGATE_GUARD_MAJOR}"
  "The extension termgate_guard: a guarded role, database or session cannot
commit a write that has not passed the check of its term."
  DEPENDS "postgresql-${TERMGATE_GUARD_MAJOR}")
include(CPack)
