# What every target of ours is built with. Flags are set here and nowhere else.
add_library(termgate_options INTERFACE)
target_compile_features(termgate_options INTERFACE cxx_std_20)
target_compile_options(termgate_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror=return-type
  # g++ 12 sees overlapping copies in std::string where there are none (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(TERMGATE_SANITIZE)
  target_compile_options(termgate_options INTERFACE -fsanitize=${TERMGATE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(termgate_options INTERFACE -fsanitize=${TERMGATE_SANITIZE})
endif()

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
endfunction()
