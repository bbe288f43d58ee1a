// What objects compiled here expect of their C and C++ runtimes and Debian 11's lack, for tests that link
// them against those.
#include <cstdlib>

extern "C" {
// "There may be several threads", which is always right. glibc has it from 2.32 on.
char __libc_single_threaded = 0;
}

namespace std {
void __throw_bad_array_new_length() { std::abort(); }  // GLIBCXX_3.4.29
}  // namespace std
