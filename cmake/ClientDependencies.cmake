# The dependencies of a build with LOCKSTEP_ONLY_CLIENT. The client itself needs only libc.
find_package(Threads REQUIRED)
# Debian has GoogleTest's libraries for its own processors only, and its sources for others.
set(LOCKSTEP_GOOGLETEST /usr/src/googletest)
if(NOT EXISTS ${LOCKSTEP_GOOGLETEST}/CMakeLists.txt)
  message(FATAL_ERROR "${LOCKSTEP_GOOGLETEST} is missing: install Debian's package googletest")
endif()
set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
add_subdirectory(${LOCKSTEP_GOOGLETEST} ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
if(NOT TARGET GTest::gmock_main)
  add_library(GTest::gmock_main ALIAS gmock_main)
endif()
