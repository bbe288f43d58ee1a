// Feeds any bytes to the reader of cProfile's profiles. The times that it reads must be small enough to be
// added up.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "formats/python/python_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  // Most random bytes are not a dict. After a dict's tag, the same bytes reach more of the reader.
  for (const std::string& input : {bytes, "{" + bytes + "0"}) {
    const auto profile = formats::ParsePythonProfile(input, "fuzz.cprofile");
    if (!profile.ok()) continue;
    for (const capture::PythonFunction& f : profile->functions) {
      constexpr int64_t kMost = int64_t{2} * 1'000'000'000 * 1'000'000'000;
      if (f.self.ns() > kMost || f.self.ns() < -kMost || f.total.ns() > kMost || f.total.ns() < -kMost)
        std::abort();
    }
  }
  return 0;
}
