# How every target of the project is compiled: one interface target, linked privately.
add_library(rowmax_build_flags INTERFACE)
target_compile_options(rowmax_build_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX,C>:-Wall -Wextra -Wpedantic -Wshadow>
  # The bits of a score must not depend on what the compiler fuses: multiply-add is written out where it is meant.
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
if(ROWMAX_WERROR)
  target_compile_options(rowmax_build_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX,C>:-Werror>)
endif()
if(ROWMAX_SANITIZE)
  target_compile_options(rowmax_build_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX,C>:-fsanitize=${ROWMAX_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(rowmax_build_flags INTERFACE -fsanitize=${ROWMAX_SANITIZE})
endif()

if(ROWMAX_BUILD_FUZZERS)
  target_compile_options(rowmax_build_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX,C>:-fsanitize=fuzzer-no-link>)
endif()
# Device code exports nothing, and takes longest: a compiler cache finds it again whichever library is built.
if(NOT BUILD_SHARED_LIBS)
  target_compile_definitions(rowmax_build_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX,C>:ROWMAX_STATIC>)
endif()

# One layer of the library: an object library that sees include/ and src/.
function(rowmax_layer name)
  add_library(${name} OBJECT ${ARGN})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE rowmax_build_flags PUBLIC rowmax_fmt Threads::Threads)
endfunction()
