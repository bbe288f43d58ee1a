option(LOCKSTEP_WERROR "warnings are errors" ON)
option(LOCKSTEP_ASSERTS "keep assert() in optimised builds" OFF)
option(LOCKSTEP_LINT "run clang-tidy while compiling" OFF)
option(LOCKSTEP_FUZZ "build the fuzzers (clang only)" OFF)
option(LOCKSTEP_UNITY "compile a target's sources together: a build from nothing takes a third of the time" OFF)
option(LOCKSTEP_ONLY_CLIENT "build only the client, the ring, and their tests, as for another processor" OFF)
option(LOCKSTEP_SANITIZED_TESTS "build the tests that the sanitizer presets also run" ON)
set(LOCKSTEP_SANITIZE "" CACHE STRING "value for -fsanitize=, empty for none")
set(LOCKSTEP_CUDA_INCLUDE "/usr/local/cuda/include" CACHE PATH
    "CUDA headers: only tests read them, to compare our own declarations with the real ones")
set(LOCKSTEP_NCCL_PROFILER_INCLUDE "" CACHE PATH
    "plugins/profiler/example/nccl of NCCL's repository: only a test reads it, to compare our own declarations")

add_compile_options(-Wall -Wextra $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local> -Wno-missing-field-initializers)
if(LOCKSTEP_WERROR)
  add_compile_options(-Werror)
endif()
if(LOCKSTEP_ASSERTS)
  string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
endif()
# Optimised builds need debug information only for back traces. Full type information would triple the build tree.
string(REPLACE "-g" "-g1" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
set(LOCKSTEP_TEST_OPTIONS "")  # for the sources of test programs only
set(LOCKSTEP_HOT_OPTIONS "")   # for the rooms that spend the programs' time
set(LOCKSTEP_COLD_OPTIONS "")  # for the rooms that wait for most of their time
set(LOCKSTEP_UNFUZZED_OPTIONS "")  # for the rooms that no fuzzer feeds
if(LOCKSTEP_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)
  # -O1 takes a fifth off the compile time.
  string(REPLACE "-O2" "-O1" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
  # With -O1, gcc sees std::optional's value used where it is not. With precompiled headers, it prints its false warnings of the
  # standard library's inlined code, which it else hides. Preset dev keeps these warnings.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>
                      $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
                      $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overread>)
  set(LOCKSTEP_TEST_OPTIONS -O1)
  set(LOCKSTEP_HOT_OPTIONS -O2)
endif()
if(LOCKSTEP_SANITIZE)
  # The address sanitizer finds what the checks null, object-size and vptr find, and these take a third of the compile time.
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-sanitize=null,object-size,vptr -fno-omit-frame-pointer -g1 -O1)
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
  # Optimisation takes a third of the compile time. Where records are read and computed with, the tests take four times as long without it.
  set(LOCKSTEP_TEST_OPTIONS -O0)
  set(LOCKSTEP_COLD_OPTIONS -O0)
  set(LOCKSTEP_HOT_OPTIONS "")
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # An error in every build with clang, also where other warnings are not.
  add_compile_options(-Wthread-safety -Werror=thread-safety)
endif()
if(LOCKSTEP_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
  # The fuzzers need to know which code they reached only in the rooms that read bytes from outside.
  set(LOCKSTEP_UNFUZZED_OPTIONS -fno-sanitize=fuzzer-no-link)
  list(APPEND LOCKSTEP_TEST_OPTIONS ${LOCKSTEP_UNFUZZED_OPTIONS})
endif()
if(LOCKSTEP_LINT)
  find_program(LOCKSTEP_CLANG_TIDY clang-tidy REQUIRED)
  set(CMAKE_CXX_CLANG_TIDY ${LOCKSTEP_CLANG_TIDY})
endif()
find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LOCKSTEP_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${LOCKSTEP_CCACHE})
endif()
find_program(LOCKSTEP_MOLD mold)
find_program(LOCKSTEP_LLD ld.lld)
if(CMAKE_CROSSCOMPILING)
  # The cross compiler's own linker.
elseif(LOCKSTEP_MOLD AND NOT LOCKSTEP_SANITIZE)
  add_link_options(-fuse-ld=mold)
elseif(LOCKSTEP_LLD AND LOCKSTEP_ASSERTS)
  # Links in a fifth of the time. Released programs are linked by binutils, as on a machine without lld.
  add_link_options(-fuse-ld=lld)
endif()
