#include "sim/device/kernel_model.h"

#include <cxxabi.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstdlib>

namespace lockstep::sim {
namespace {

constexpr int64_t kFixedNs = 3'000, kWaveNs = 20'000, kCopyFixedNs = 2'000, kShortestNs = 500;
constexpr double kDeviceMemoryGbps = 2'000;

std::string Demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result;
}

}  // namespace

KernelModel::KernelModel(const DeviceSettings& settings)
    : settings_(settings), random_(settings.seed * 1'000'003 + static_cast<uint64_t>(settings.rank)) {}

const KernelRule* KernelModel::RuleFor(const char* name) {
  const auto known = known_.find(name);
  if (known != known_.end()) return known->second;
  const std::string plain = Demangled(name);
  const KernelRule* found = nullptr;
  for (const KernelRule& rule : settings_.kernels) {
    if (fnmatch(rule.pattern.c_str(), plain.c_str(), 0) != 0 && fnmatch(rule.pattern.c_str(), name, 0) != 0)
      continue;
    found = &rule;
    break;
  }
  return known_[name] = found;
}

int64_t KernelModel::KernelNs(const char* name, const KernelShape& shape) {
  double ns = 0;
  if (const KernelRule* rule = RuleFor(name)) {
    ns = static_cast<double>(rule->mean_ns);
    if (rule->deviation > 0) ns *= std::normal_distribution<double>(1.0, rule->deviation)(random_);
  } else {
    const uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
    const uint64_t threads = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
    const uint64_t at_once = uint64_t{kMultiprocessors} * kThreadsPerMultiprocessor;
    const uint64_t waves = (blocks * threads + at_once - 1) / at_once;
    ns = static_cast<double>(kFixedNs + static_cast<int64_t>(waves) * kWaveNs);
  }
  return std::max(static_cast<int64_t>(ns * settings_.kernel_factor), kShortestNs);
}

int64_t KernelModel::CopyNs(uint64_t bytes, Path path) const {
  const bool over_bus = path == Path::kHostDevice;
  const double gbps = over_bus ? settings_.copy_gbps : kDeviceMemoryGbps;
  const double ns = static_cast<double>(kCopyFixedNs) + static_cast<double>(bytes) / gbps;
  return static_cast<int64_t>(over_bus ? ns * settings_.copy_factor : ns);
}

}  // namespace lockstep::sim
