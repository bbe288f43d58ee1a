#include "analysis/prepare/call_names.h"

#include <string_view>

namespace lockstep::analysis {
namespace {

// Examples: "cudaMemcpyAsync_v3020" from CUPTI, "cudaMemcpyAsync" from Kineto, "cuMemcpyHtoD_v2" of the
// driver.
CallRole RoleOf(std::string_view name) {
  const bool cuda = name.starts_with("cuda") || name.starts_with("hip") || name.starts_with("cu");
  if (!cuda) return CallRole::kOther;
  const auto has = [&](std::string_view word) { return name.find(word) != std::string_view::npos; };
  if (has("StreamWaitEvent")) return CallRole::kStreamWait;
  if (has("Synchronize")) return CallRole::kSynchronizes;
  if (has("Memcpy")) return CallRole::kCopies;
  if (has("Malloc") || has("MemAlloc") || has("Free") || has("ModuleLoad") || has("LibraryLoad") ||
      has("HostAlloc")) {
    return CallRole::kAllocates;
  }
  return CallRole::kOther;
}

}  // namespace

CallNames::CallNames(const capture::Capture& capture) {
  roles_.reserve(capture.strings.size());
  for (uint32_t i = 0; i < capture.strings.size(); ++i) roles_.push_back(RoleOf(capture.Text(NameId(i))));
}

}  // namespace lockstep::analysis
