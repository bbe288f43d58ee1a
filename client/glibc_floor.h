// Binds the names that glibc 2.33 and 2.34 gave a new version to their first version, so that the library
// loads on glibc 2.28. The build includes it in every source of the shared object (client/CMakeLists.txt).
// tests/abi fails on any symbol above 2.28. The first version depends on the processor.
#ifndef LOCKSTEP_CLIENT_GLIBC_FLOOR_H_
#define LOCKSTEP_CLIENT_GLIBC_FLOOR_H_

#if defined(__x86_64__)
#define LOCKSTEP_FIRST_GLIBC "GLIBC_2.2.5"
#define LOCKSTEP_FIRST_DLINFO "GLIBC_2.3.3"
#elif defined(__aarch64__)
#define LOCKSTEP_FIRST_GLIBC "GLIBC_2.17"
#define LOCKSTEP_FIRST_DLINFO "GLIBC_2.17"
#else
#error "glibc's first version for this processor is not known"
#endif

__asm__(".symver dlopen,dlopen@" LOCKSTEP_FIRST_GLIBC);
__asm__(".symver dlsym,dlsym@" LOCKSTEP_FIRST_GLIBC);
__asm__(".symver dlclose,dlclose@" LOCKSTEP_FIRST_GLIBC);
__asm__(".symver dladdr,dladdr@" LOCKSTEP_FIRST_GLIBC);
__asm__(".symver dlinfo,dlinfo@" LOCKSTEP_FIRST_DLINFO);
__asm__(".symver pthread_create,pthread_create@" LOCKSTEP_FIRST_GLIBC);
__asm__(".symver pthread_attr_setstacksize,pthread_attr_setstacksize@" LOCKSTEP_FIRST_GLIBC);
__asm__(".symver pthread_sigmask,pthread_sigmask@" LOCKSTEP_FIRST_GLIBC);
__asm__(".symver pthread_key_create,pthread_key_create@" LOCKSTEP_FIRST_GLIBC);
__asm__(".symver pthread_getspecific,pthread_getspecific@" LOCKSTEP_FIRST_GLIBC);
__asm__(".symver pthread_setspecific,pthread_setspecific@" LOCKSTEP_FIRST_GLIBC);

#endif  // LOCKSTEP_CLIENT_GLIBC_FLOOR_H_
