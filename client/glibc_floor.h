// Binds the names that glibc 2.33 and 2.34 gave a new version to their first version, so that the library
// loads on glibc 2.28. The build includes it in every source of the shared object (client/CMakeLists.txt).
// tests/abi fails on any symbol above 2.28. It is for x86-64 only, because other machines have other first
// versions.
#ifndef LOCKSTEP_CLIENT_GLIBC_FLOOR_H_
#define LOCKSTEP_CLIENT_GLIBC_FLOOR_H_

#if !defined(__x86_64__)
#error "the first glibc versions below are those of x86-64"
#endif

__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
__asm__(".symver dlclose,dlclose@GLIBC_2.2.5");
__asm__(".symver dladdr,dladdr@GLIBC_2.2.5");
__asm__(".symver dlinfo,dlinfo@GLIBC_2.3.3");
__asm__(".symver pthread_create,pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_attr_setstacksize,pthread_attr_setstacksize@GLIBC_2.2.5");
__asm__(".symver pthread_sigmask,pthread_sigmask@GLIBC_2.2.5");
__asm__(".symver pthread_key_create,pthread_key_create@GLIBC_2.2.5");
__asm__(".symver pthread_getspecific,pthread_getspecific@GLIBC_2.2.5");
__asm__(".symver pthread_setspecific,pthread_setspecific@GLIBC_2.2.5");

#endif  // LOCKSTEP_CLIENT_GLIBC_FLOOR_H_
