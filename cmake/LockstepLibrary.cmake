# lockstep_precompile(<target> <headers>)
#   Compiles headers that many sources include once for all targets with the same options. <headers> is libraries, rpc, or tests.
#   Only rpc is compiled once in every preset, the others with LOCKSTEP_UNITY.
# lockstep_library(<name> SRCS … [PUBLIC …] DEPS … [TESTS …] [LABELS …] [TEST_DEPS …])
#   Adds a static library, and a test program <name>_test from TESTS. Sources are relative to the calling folder. PUBLIC lists the
#   headers that other rooms may include. All other headers are private to their room (tools/check_layers.py reads the lists).
# lockstep_test(<name> SRCS … DEPS … [LABELS …] [READS_REPOSITORY] [ONE_THREAD])
#   Adds a test program. READS_REPOSITORY defines LOCKSTEP_SOURCE_DIR and LOCKSTEP_GOLDEN_DIR for it. With ONE_THREAD, the thread
#   sanitizer leaves it out, because its code starts no thread, or another test runs the same threads.
# lockstep_bench(<name> SRCS … DEPS …)
#   Adds a Google Benchmark program. `./dev bench` runs all of them.
# lockstep_fuzzer(<name>_fuzzer SRCS … DEPS …)
#   Adds a libFuzzer program, which `./dev fuzz` runs, and a test that runs it once on the inputs in tests/corpus/<name>.
# lockstep_check_orphan_tests()
#   Makes the configuration fail if a *_test.cc belongs to no target.
set_property(GLOBAL PROPERTY lockstep_known_tests "")

# lockstep_public_headers(<header> …)
#   Has the same effect as PUBLIC, for rooms that are not built by lockstep_library.
function(lockstep_public_headers)
endfunction()

set(LOCKSTEP_HEADERS_libraries <algorithm> <cstdint> <functional> <map> <memory> <optional> <set> <string> <string_view> <utility> <vector>
  [["absl/container/flat_hash_map.h"]] [["absl/status/statusor.h"]] [["absl/strings/str_cat.h"]] [["absl/strings/str_format.h"]])
set(LOCKSTEP_HEADERS_rpc ${LOCKSTEP_HEADERS_libraries} <grpcpp/grpcpp.h>)
set(LOCKSTEP_HEADERS_tests ${LOCKSTEP_HEADERS_libraries} <gmock/gmock.h> <gtest/gtest.h>)

function(lockstep_precompile target headers)
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS OR NOT (LOCKSTEP_UNITY OR headers STREQUAL rpc))
    return()
  endif()
  # The compilers refuse a precompiled header with other options, so targets share one only if their folders have the same options.
  get_directory_property(options COMPILE_OPTIONS)
  string(SHA1 key "${headers} ${options}")
  string(SUBSTRING ${key} 0 8 key)
  set(owner lockstep_headers_${headers}_${key})
  if(NOT TARGET ${owner})
    set(source ${CMAKE_BINARY_DIR}/headers/empty.cc)
    if(NOT EXISTS ${source})
      file(WRITE ${source} "")
    endif()
    if(headers STREQUAL tests)
      add_executable(${owner} EXCLUDE_FROM_ALL ${source})
      target_link_libraries(${owner} PRIVATE GTest::gmock_main)
      target_compile_options(${owner} PRIVATE ${LOCKSTEP_TEST_OPTIONS})
    else()
      add_library(${owner} STATIC EXCLUDE_FROM_ALL ${source})
    endif()
    target_compile_options(${owner} PRIVATE -pthread)
    target_precompile_headers(${owner} PRIVATE ${LOCKSTEP_HEADERS_${headers}})
  endif()
  target_compile_options(${target} PRIVATE -pthread)  # as gRPC and GoogleTest ask for
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

function(lockstep_library name)
  cmake_parse_arguments(arg "" "" "SRCS;HDRS;PUBLIC;DEPS;TESTS;LABELS;TEST_DEPS" ${ARGN})
  if(arg_SRCS)
    add_library(${name} STATIC ${arg_SRCS})
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} PUBLIC ${arg_DEPS})
    if(arg_DEPS MATCHES "gRPC::|lockstep_base_rpc|lockstep_proto")
      lockstep_precompile(${name} rpc)
    elseif(arg_DEPS MATCHES "absl::")
      lockstep_precompile(${name} libraries)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} INTERFACE ${arg_DEPS})
  endif()
  if(arg_TESTS)
    lockstep_test(${name}_test SRCS ${arg_TESTS} DEPS ${name} ${arg_TEST_DEPS} LABELS ${arg_LABELS})
  endif()
endfunction()

function(lockstep_test name)
  cmake_parse_arguments(arg "READS_REPOSITORY;ONE_THREAD" "" "SRCS;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SRCS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} GTest::gmock_main)
  target_compile_options(${name} PRIVATE ${LOCKSTEP_TEST_OPTIONS})
  lockstep_precompile(${name} tests)
  if(arg_READS_REPOSITORY)
    target_compile_definitions(${name} PRIVATE LOCKSTEP_SOURCE_DIR="${CMAKE_SOURCE_DIR}" LOCKSTEP_GOLDEN_DIR="${CMAKE_SOURCE_DIR}/tests/golden")
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  # One ctest entry per program, because hundreds of entries would spend more time on starting than on testing.
  add_test(NAME ${name} COMMAND ${name})
  # Evaluations run code that other tests run, on more data.
  if(NOT arg_LABELS MATCHES "inject|e2e|abi|evaluation" AND NOT (arg_ONE_THREAD AND LOCKSTEP_SANITIZE STREQUAL "thread"))
    list(APPEND arg_LABELS sanitized)
    set_property(GLOBAL APPEND PROPERTY lockstep_sanitized ${name})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 300)
  if("sanitized" IN_LIST arg_LABELS AND NOT LOCKSTEP_SANITIZED_TESTS)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
  foreach(src ${arg_SRCS})
    get_filename_component(full ${src} ABSOLUTE)
    set_property(GLOBAL APPEND PROPERTY lockstep_known_tests ${full})
  endforeach()
endfunction()

function(lockstep_bench name)
  cmake_parse_arguments(arg "" "" "SRCS;DEPS" ${ARGN})
  if(LOCKSTEP_ONLY_CLIENT)  # Google Benchmark is there for this machine's processor only
    return()
  endif()
  add_executable(${name} EXCLUDE_FROM_ALL ${arg_SRCS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} benchmark::benchmark)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
  set_property(GLOBAL APPEND PROPERTY lockstep_benches ${name})
endfunction()

function(lockstep_check_orphan_tests)
  get_property(known GLOBAL PROPERTY lockstep_known_tests)
  file(GLOB_RECURSE all CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/base/*_test.cc ${CMAKE_SOURCE_DIR}/wire/*_test.cc ${CMAKE_SOURCE_DIR}/scenario/*_test.cc
    ${CMAKE_SOURCE_DIR}/client/*_test.cc ${CMAKE_SOURCE_DIR}/sim/*_test.cc ${CMAKE_SOURCE_DIR}/daemon/*_test.cc
    ${CMAKE_SOURCE_DIR}/capture/*_test.cc ${CMAKE_SOURCE_DIR}/analysis/*_test.cc ${CMAKE_SOURCE_DIR}/formats/*_test.cc
    ${CMAKE_SOURCE_DIR}/report/*_test.cc ${CMAKE_SOURCE_DIR}/views/*_test.cc ${CMAKE_SOURCE_DIR}/web/*_test.cc
    ${CMAKE_SOURCE_DIR}/history/*_test.cc
    ${CMAKE_SOURCE_DIR}/aggregator/*_test.cc ${CMAKE_SOURCE_DIR}/cli/*_test.cc ${CMAKE_SOURCE_DIR}/tests/*_test.cc
    ${CMAKE_SOURCE_DIR}/bench/*_test.cc)
  foreach(file ${all})
    if(NOT file IN_LIST known)
      message(FATAL_ERROR "${file} is a test that no target runs: add it to a lockstep_library(... TESTS ...)")
    endif()
  endforeach()
  get_property(benches GLOBAL PROPERTY lockstep_benches)
  add_custom_target(benches DEPENDS ${benches})
  # The tests that the sanitizer presets run (CMakePresets.json selects their label). Only these are built for them.
  get_property(sanitized GLOBAL PROPERTY lockstep_sanitized)
  add_custom_target(sanitized DEPENDS ${sanitized})
  get_property(fuzzers GLOBAL PROPERTY lockstep_fuzzers)
  add_custom_target(fuzzers DEPENDS ${fuzzers})
endfunction()

# Fuzzers are built only in the tree of preset asan, into <build>/fuzz.
function(lockstep_fuzzer name)
  cmake_parse_arguments(arg "" "" "SRCS;DEPS" ${ARGN})
  if(NOT LOCKSTEP_FUZZ)
    return()
  endif()
  add_executable(${name} EXCLUDE_FROM_ALL ${arg_SRCS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  set_property(GLOBAL APPEND PROPERTY lockstep_fuzzers ${name})
  string(REGEX REPLACE "_fuzzer$" "" attacked ${name})
  set(corpus ${CMAKE_SOURCE_DIR}/tests/corpus/${attacked})
  if(NOT IS_DIRECTORY ${corpus})
    message(FATAL_ERROR "${name} has no inputs: put a valid one into ${corpus}")
  endif()
  add_test(NAME ${attacked}_corpus COMMAND ${name} -runs=0 -timeout=10 -close_fd_mask=3 ${corpus})
  set_tests_properties(${attacked}_corpus PROPERTIES LABELS "fuzz;sanitized" TIMEOUT 120
    # Without it, the undefined-behaviour sanitizer only prints a line.
    ENVIRONMENT UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1)
  set_property(GLOBAL APPEND PROPERTY lockstep_sanitized ${name})
endfunction()
