// Any bytes as a profile of Python's cProfile. What is kept must have times that can be added up.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "aggregator/trace/python_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  // Most random bytes are no dict; behind its tag they reach further.
  for (const std::string& input : {bytes, "{" + bytes + "0"}) {
    const auto profile = trace::ParsePythonProfile(input, "fuzz.cprofile");
    if (!profile.ok()) continue;
    for (const store::PythonFunction& f : profile->functions) {
      constexpr int64_t kMost = int64_t{2} * 1'000'000'000 * 1'000'000'000;
      if (f.self.ns() > kMost || f.self.ns() < -kMost || f.total.ns() > kMost || f.total.ns() < -kMost)
        std::abort();
    }
  }
  return 0;
}
