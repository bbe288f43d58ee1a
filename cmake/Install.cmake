# Defines the places of files for `cmake --install build/release [--prefix P] [--component C]`. The components are the packages of ./dev deb
# (docs/install.md): client, daemon, aggregator, cli.
#
# The programs find each other and the client library relative to their own path (cli/common/installation.h). No path is compiled
# in, so the prefix can be chosen at installation.
include(GNUInstallDirs)

set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# The client is opened by path. It has its own folder, so that the linker does not find it.
install(TARGETS lockstep_client LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/lockstep COMPONENT client)
install(FILES client/lockstep.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT client)

install(TARGETS lockstepd RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT daemon)
install(TARGETS lockstep-aggregator RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT aggregator)
install(TARGETS lockstep RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT cli)

# Units name programs and files by absolute path, and the prefix is known only at installation. With /usr, the configuration
# is in /etc.
function(lockstep_install_service component config)
  foreach(unit IN LISTS ARGN)
    lockstep_install_unit(${component} ${unit})
  endforeach()
  install(CODE "
    set(LOCKSTEP_SYSCONFDIR \"\${CMAKE_INSTALL_PREFIX}/etc\")
    if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
      set(LOCKSTEP_SYSCONFDIR /etc)
    endif()
    # Existing settings are kept.
    if(NOT EXISTS \"\$ENV{DESTDIR}\${LOCKSTEP_SYSCONFDIR}/lockstep/${config}\")
      file(INSTALL \"${CMAKE_SOURCE_DIR}/deploy/config/${config}\" DESTINATION \"\${LOCKSTEP_SYSCONFDIR}/lockstep\")
    endif()"
    COMPONENT ${component})
endfunction()
function(lockstep_install_unit component unit)
  install(CODE "
    set(LOCKSTEP_BINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
    set(LOCKSTEP_SYSCONFDIR \"\${CMAKE_INSTALL_PREFIX}/etc\")
    if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
      set(LOCKSTEP_SYSCONFDIR /etc)
    endif()
    configure_file(\"${CMAKE_SOURCE_DIR}/deploy/systemd/${unit}.in\" \"${CMAKE_BINARY_DIR}/install/${unit}\" @ONLY)
    file(INSTALL \"${CMAKE_BINARY_DIR}/install/${unit}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/systemd/system\")"
    COMPONENT ${component})
endfunction()
lockstep_install_service(daemon lockstepd.conf lockstepd.service lockstepd-broker.service)
lockstep_install_service(aggregator aggregator.conf lockstep-aggregator.service)

# The built program makes these files, so that they match it.
function(lockstep_install_service_page component program)
  install(CODE "
    set(page \"${CMAKE_BINARY_DIR}/install/${program}.8\")
    execute_process(COMMAND \"$<TARGET_FILE:${program}>\" --man-page OUTPUT_FILE \"\${page}\" COMMAND_ERROR_IS_FATAL ANY)
    file(INSTALL \"\${page}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATAROOTDIR}/man/man8\")"
    COMPONENT ${component})
endfunction()
lockstep_install_service_page(daemon lockstepd)
lockstep_install_service_page(aggregator lockstep-aggregator)

install(CODE "
  set(program \"$<TARGET_FILE:lockstep>\")
  set(made \"${CMAKE_BINARY_DIR}/install\")
  file(REMOVE_RECURSE \"\${made}/man1\")
  foreach(shell bash zsh fish)
    execute_process(COMMAND \"\${program}\" completion \${shell} OUTPUT_FILE \"\${made}/completion.\${shell}\" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  execute_process(COMMAND \"\${program}\" man -o \"\${made}/man1\" ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
  set(share \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATAROOTDIR}\")
  file(INSTALL \"\${made}/completion.bash\" DESTINATION \"\${share}/bash-completion/completions\" RENAME lockstep)
  file(INSTALL \"\${made}/completion.zsh\" DESTINATION \"\${share}/zsh/vendor-completions\" RENAME _lockstep)
  file(INSTALL \"\${made}/completion.fish\" DESTINATION \"\${share}/fish/vendor_completions.d\" RENAME lockstep.fish)
  file(INSTALL \"\${made}/man1\" DESTINATION \"\${share}/man\")"
  COMPONENT cli)
