# All dependencies are Debian 12 packages, which ./dev installs (tools/packages.txt).
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(fmt REQUIRED)
find_package(simdjson REQUIRED)
find_package(CLI11 REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
# pkg-config is required, because its flags determine the layout of the library's classes.
pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
# OTF2 has otf2-config instead of a pkg-config file.
find_path(OTF2_INCLUDE_DIR otf2/otf2.h REQUIRED)
find_library(OTF2_LIBRARY NAMES open-trace-format2 otf2 REQUIRED)
add_library(OTF2::OTF2 UNKNOWN IMPORTED)
set_target_properties(OTF2::OTF2 PROPERTIES IMPORTED_LOCATION "${OTF2_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${OTF2_INCLUDE_DIR}")
find_package(MPI REQUIRED COMPONENTS C)
# Tests need Debian's Python packages. Another Python that is earlier in PATH would not find them.
find_program(LOCKSTEP_DEBIAN_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)
# GCC's demangler, a static library. Only this demangler can be stopped in the middle (capture/model/kernel_name.h).
find_library(LOCKSTEP_IBERTY iberty REQUIRED)
include(GoogleTest)
