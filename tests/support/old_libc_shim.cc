// Symbols that objects compiled here expect of the C and C++ runtimes and that Debian 11's runtimes lack.
// Tests link such objects with it.
#include <cstdlib>

extern "C" {
// The value means that several threads may exist, which is always safe. glibc has the symbol since 2.32.
char __libc_single_threaded = 0;
}

namespace std {
void __throw_bad_array_new_length() { std::abort(); }  // GLIBCXX_3.4.29
}  // namespace std
