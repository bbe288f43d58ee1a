// Compares with the loader, on this process's own memory.
#include "daemon/stacks/loaded_image.h"

#include <dlfcn.h>
#include <fcntl.h>

#include <fstream>
#include <sstream>

#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

const MemoryFile& OwnMemory() {
  static const MemoryFile memory{Fd(open("/proc/self/mem", O_RDONLY | O_CLOEXEC))};
  return memory;
}

std::vector<LoadedImage> OwnImages() {
  std::ostringstream maps;
  maps << std::ifstream("/proc/self/maps").rdbuf();
  return LoadedImages(maps.str());
}

TEST(LoadedImage, FindsWhatTheLoaderFinds) {
  size_t found = 0;
  for (const char* name : {"getpid", "environ", "_ZSt4cout", "pthread_create", "deflate"}) {
    Dl_info info = {};
    void* const expected = dlsym(RTLD_DEFAULT, name);
    if (expected == nullptr || dladdr(expected, &info) == 0) continue;
    for (const LoadedImage& image : OwnImages()) {
      if (image.begin != reinterpret_cast<uint64_t>(info.dli_fbase)) continue;
      EXPECT_EQ(FindSymbol(OwnMemory(), image, name), reinterpret_cast<uint64_t>(expected)) << name;
      ++found;
    }
  }
  EXPECT_GE(found, 3u);
}

TEST(LoadedImage, HasNoSymbolThatIsOnlyUsed) {
  size_t users = 0;
  for (const LoadedImage& image : OwnImages()) {
    EXPECT_EQ(FindSymbol(OwnMemory(), image, "no_library_exports_this"), std::nullopt) << image.path;
    if (image.path.find("/libstdc++.so.6") == std::string::npos) continue;
    EXPECT_EQ(FindSymbol(OwnMemory(), image, "strlen"), std::nullopt) << "it only uses it";
    ++users;
  }
  EXPECT_GT(users, 0u);
  EXPECT_EQ(FindSymbol(OwnMemory(), {.begin = 16}, "getpid"), std::nullopt) << "not mapped";
}

TEST(LoadedImage, ParsesMaps) {
  const std::vector<LoadedImage> images = LoadedImages(
      "55d0c000-55d0e000 r--p 00000000 08:01 1 /usr/bin/python3.11\n"
      "55d0e000-55d0f000 r-xp 00002000 08:01 1 /usr/bin/python3.11\n"
      "55d10000-55d20000 rw-p 00000000 00:00 0                      [heap]\n"
      "garbage\n"
      "7f10-7f20 r-xp 00000000 08:01 2 /a folder/lib.so (deleted)");
  ASSERT_EQ(images.size(), 2u);
  EXPECT_EQ(images[0].begin, 0x55d0c000u);
  EXPECT_EQ(images[0].path, "/usr/bin/python3.11");
  EXPECT_EQ(images[1].path, "/a folder/lib.so (deleted)");
}

}  // namespace
}  // namespace lockstep::daemon
