# Hardening of every program and library. tests/e2e/release_test.py checks it in the files of a release, and docs/install.md lists it.
include(CheckPIESupported)
check_pie_supported()
add_compile_options(-fstack-protector-strong)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  add_compile_options(-fcf-protection=full)
endif()
# glibc's checks need an optimised build. A sanitizer replaces the same functions; its presets have the type Debug.
add_compile_options($<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>)
add_link_options(-Wl,-z,relro -Wl,-z,now)

# A release has the same bytes in every folder (./dev reproduce). Other builds keep their paths, for debuggers.
add_compile_options("$<$<CONFIG:Release>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.>")
