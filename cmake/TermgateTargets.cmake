# What every target of ours is built with. Flags are set here and nowhere else.
add_library(termgate_options INTERFACE)
target_compile_features(termgate_options INTERFACE cxx_std_20)
target_include_directories(termgate_options INTERFACE "${PROJECT_SOURCE_DIR}/text/include")
target_compile_options(termgate_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror=return-type
  # g++ 12 warns of overlapping copies in std::string where there are none (GCC bug 105651) and, in Release, of copies out of bounds.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>:-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds>)
if(TERMGATE_SANITIZE)
  target_compile_options(termgate_options INTERFACE -fsanitize=${TERMGATE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(termgate_options INTERFACE -fsanitize=${TERMGATE_SANITIZE})
endif()

# The standard headers that nearly every source includes, read once a target: reading them is a third of the time that a source takes.
# Sources include what they use all the same; a build without this (TERMGATE_PCH=OFF, as in the preset tsan) fails where one does not.
function(termgate_precompile target)
  if(TERMGATE_PCH)
    target_precompile_headers(${target} PRIVATE <algorithm> <chrono> <functional> <map> <memory> <mutex> <optional> <string> <string_view> <unordered_map> <variant> <vector>)
  endif()
endfunction()

# Several sources in one translation unit: most of the time that a source takes goes to headers and to the standard's templates, which are then paid for once.
# The preset tsan compiles each source by itself and shows a missing include.
function(termgate_together target)
  if(TERMGATE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
endfunction()

# The files of this folder that hold a planted bug: termgate_plants(<source> …)
function(termgate_plants)
  if(TERMGATE_PLANT)
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_DEFINITIONS "TERMGATE_PLANT=\"${TERMGATE_PLANT}\"")
  endif()
endfunction()

# One library a folder: termgate_module(<folder> HEADERS … SOURCES … [BASE_DIR include])
function(termgate_module name)
  cmake_parse_arguments(MODULE "" "" "HEADERS;SOURCES" ${ARGN})
  add_library(termgate_${name} STATIC ${MODULE_SOURCES})
  add_library(Termgate::${name} ALIAS termgate_${name})
  set_target_properties(termgate_${name} PROPERTIES
    EXPORT_NAME ${name}
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON
    VERIFY_INTERFACE_HEADER_SETS ON)
  target_compile_features(termgate_${name} PUBLIC cxx_std_20)
  target_link_libraries(termgate_${name} PRIVATE $<BUILD_INTERFACE:termgate_options>)
  target_sources(termgate_${name} PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${MODULE_HEADERS})
  list(LENGTH MODULE_SOURCES sources)
  if(sources GREATER 6)
    termgate_precompile(termgate_${name})
  endif()
  termgate_together(termgate_${name})
endfunction()
