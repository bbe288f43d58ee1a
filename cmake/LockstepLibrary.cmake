# lockstep_library(<name> SRCS … HDRS … DEPS … TESTS … [LABELS …] [TEST_DEPS …])
#   One static library, and one test program <name>_test from TESTS. Sources are looked up in the calling folder.
# lockstep_test(<name> SRCS … DEPS … [LABELS …])      a test program that belongs to no library
# lockstep_bench(<name> SRCS … DEPS …)                a Google Benchmark program; `./dev bench` runs every one
# lockstep_check_orphan_tests()                       configuration fails when a *_test.cc is built by nobody
set_property(GLOBAL PROPERTY lockstep_known_tests "")

function(lockstep_library name)
  cmake_parse_arguments(arg "" "" "SRCS;HDRS;DEPS;TESTS;LABELS;TEST_DEPS" ${ARGN})
  if(arg_SRCS)
    add_library(${name} STATIC ${arg_SRCS} ${arg_HDRS})
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} PUBLIC ${arg_DEPS})
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
  cmake_parse_arguments(arg "" "" "SRCS;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SRCS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} GTest::gmock_main)
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  # One ctest entry per program: hundreds of entries would spend more time starting than testing.
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 300)
  foreach(src ${arg_SRCS})
    get_filename_component(full ${src} ABSOLUTE)
    set_property(GLOBAL APPEND PROPERTY lockstep_known_tests ${full})
  endforeach()
endfunction()

function(lockstep_bench name)
  cmake_parse_arguments(arg "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${arg_SRCS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} benchmark::benchmark)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
  set_property(GLOBAL APPEND PROPERTY lockstep_benches ${name})
endfunction()

function(lockstep_check_orphan_tests)
  get_property(known GLOBAL PROPERTY lockstep_known_tests)
  file(GLOB_RECURSE all CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/common/*_test.cc ${CMAKE_SOURCE_DIR}/client/*_test.cc ${CMAKE_SOURCE_DIR}/sim/*_test.cc
    ${CMAKE_SOURCE_DIR}/daemon/*_test.cc ${CMAKE_SOURCE_DIR}/aggregator/*_test.cc ${CMAKE_SOURCE_DIR}/cli/*_test.cc
    ${CMAKE_SOURCE_DIR}/tests/*_test.cc ${CMAKE_SOURCE_DIR}/bench/*_test.cc)
  foreach(file ${all})
    if(NOT file IN_LIST known)
      message(FATAL_ERROR "${file} is a test that no target runs: add it to a lockstep_library(... TESTS ...)")
    endif()
  endforeach()
  get_property(benches GLOBAL PROPERTY lockstep_benches)
  add_custom_target(benches DEPENDS ${benches})
endfunction()
