# libtermgate.so: the library with SQLite, and one shared library for each driver that brings libraries of its own, loaded when a URL names its database
# (storage/src/driver_library.hpp). The command keeps linking the static modules, so that it runs without this.

# termgate_shared_library(<target> <file name> <export name> MODULES <static module …> SOURCES <more sources …>)
function(termgate_shared_library target file export_name)
  cmake_parse_arguments(SHARED "" "" "MODULES;SOURCES" ${ARGN})
  add_library(${target} SHARED ${SHARED_SOURCES})
  add_library(Termgate::${target} ALIAS ${target})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${file}
    EXPORT_NAME ${export_name}
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}
    CXX_EXTENSIONS OFF
    INSTALL_RPATH "")
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_definitions(${target} PRIVATE TERMGATE_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:termgate_options> Termgate::sql fmt::fmt Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL -Wl,--as-needed -Wl,-z,defs)
  foreach(module IN LISTS SHARED_MODULES)
    get_target_property(folder ${module} SOURCE_DIR)
    get_target_property(sources ${module} SOURCES)
    get_target_property(headers ${module} HEADER_SET)
    foreach(source IN LISTS sources)
      target_sources(${target} PRIVATE "${folder}/${source}")
    endforeach()
    list(TRANSFORM headers PREPEND "${folder}/" REGEX "^[^/]")
    # Each folder's headers are a set of their own, for their own base directory; the first is the default set.
    target_sources(${target} PUBLIC FILE_SET ${module} TYPE HEADERS BASE_DIRS "${folder}/include" FILES ${headers})
    set_property(TARGET ${target} APPEND PROPERTY TERMGATE_HEADER_SETS ${module})
    if(EXISTS "${folder}/src")
      target_include_directories(${target} PRIVATE "${folder}/src")
    endif()
  endforeach()
  termgate_precompile(${target})
endfunction()

set(core_modules termgate_fencing termgate_storage)
set(core_definitions TERMGATE_DRIVERS_ON_DEMAND=1)
if(TARGET termgate_sqlite)
  find_package(SQLite3 3.37 REQUIRED)
  list(APPEND core_modules termgate_sqlite)
  list(APPEND core_definitions TERMGATE_WITH_SQLITE=1)
endif()
termgate_shared_library(termgate_shared termgate termgate MODULES ${core_modules} SOURCES "${PROJECT_SOURCE_DIR}/storage/src/driver_library.cpp")
target_compile_definitions(termgate_shared PRIVATE ${core_definitions})
target_link_options(termgate_shared PRIVATE "-Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/libtermgate.map")
set_target_properties(termgate_shared PROPERTIES LINK_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/libtermgate.map" UNITY_BUILD OFF)
if(TARGET termgate_sqlite)
  target_link_libraries(termgate_shared PRIVATE SQLite::SQLite3)
endif()
set(shared_libraries termgate_shared)

# termgate_driver_library(<module> <file name> <export name> <macro> <libraries that its public header needs …>)
function(termgate_driver_library module file export_name macro)
  termgate_shared_library(${module}_shared ${file} ${export_name} MODULES ${module}
    SOURCES "${PROJECT_SOURCE_DIR}/storage/src/driver_entry.cpp" "${PROJECT_SOURCE_DIR}/storage/src/open.cpp" "${PROJECT_SOURCE_DIR}/storage/src/fence_feed.cpp")
  set_target_properties(${module}_shared PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/libtermgate_driver.map")
  target_compile_definitions(${module}_shared PRIVATE ${macro}=1)
  target_link_options(${module}_shared PRIVATE "-Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/libtermgate_driver.map")
  target_link_libraries(${module}_shared PUBLIC termgate_shared ${ARGN})
  set(shared_libraries ${shared_libraries} ${module}_shared PARENT_SCOPE)
endfunction()

if(TARGET termgate_postgres)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(PQXX REQUIRED IMPORTED_TARGET libpqxx)
  pkg_check_modules(LIBPQ REQUIRED IMPORTED_TARGET libpq)
  termgate_driver_library(termgate_postgres termgate-postgresql postgres TERMGATE_WITH_POSTGRES PkgConfig::PQXX)
endif()
if(TARGET termgate_odbc)
  find_package(ODBC REQUIRED)
  termgate_driver_library(termgate_odbc termgate-odbc odbc TERMGATE_WITH_ODBC ODBC::ODBC)
  target_link_libraries(termgate_odbc_shared PRIVATE "${TERMGATE_ODBCINST}")
endif()

# The testkit as users get it: on the shared library, a static library of its own, for it is for tests.
get_target_property(testkit_sources termgate_testkit SOURCES)
get_target_property(testkit_folder termgate_testkit SOURCE_DIR)
get_target_property(testkit_headers termgate_testkit HEADER_SET)
list(TRANSFORM testkit_sources PREPEND "${testkit_folder}/")
list(TRANSFORM testkit_headers PREPEND "${testkit_folder}/" REGEX "^[^/]")
add_library(termgate_testkit_installed STATIC ${testkit_sources})
set_target_properties(termgate_testkit_installed PROPERTIES OUTPUT_NAME termgate_testkit ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/installed" EXPORT_NAME testkit CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
target_sources(termgate_testkit_installed PUBLIC FILE_SET HEADERS BASE_DIRS "${testkit_folder}/include" FILES ${testkit_headers})
target_link_libraries(termgate_testkit_installed PUBLIC termgate_shared PRIVATE $<BUILD_INTERFACE:termgate_options> fmt::fmt Threads::Threads)
if(TARGET termgate_postgres)
  target_link_libraries(termgate_testkit_installed PRIVATE PkgConfig::LIBPQ)
  target_compile_definitions(termgate_testkit_installed PRIVATE TERMGATE_WITH_POSTGRES=1)
endif()
