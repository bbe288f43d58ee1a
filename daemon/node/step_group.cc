#include "daemon/node/step_group.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace lockstep::daemon {
namespace {

absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

// Returns the position after the path component that begins at `begin`.
size_t EndOfComponent(absl::string_view line, size_t begin) {
  const size_t end = line.find('/', begin);
  return end == absl::string_view::npos ? line.size() : end;
}

}  // namespace

StepGroup StepGroup::Of(std::string_view lines, uint32_t job) {
  StepGroup group;
  const std::string name = absl::StrCat("/job_", job);
  for (const absl::string_view line : absl::StrSplit(ToAbsl(lines), '\n')) {
    const size_t found = line.find(name);
    if (found == absl::string_view::npos) continue;
    size_t end = EndOfComponent(line, found + 1);
    if (end != found + name.size()) continue;  // a longer number
    if (line.substr(end, 6) == "/step_") end = EndOfComponent(line, end + 1);
    group.prefix_ = std::string(line.substr(0, end));
    return group;
  }
  return group;
}

bool StepGroup::Holds(std::string_view lines) const {
  if (empty()) return false;
  for (const absl::string_view line : absl::StrSplit(ToAbsl(lines), '\n')) {
    if (line.substr(0, prefix_.size()) == prefix_ &&
        (line.size() == prefix_.size() || line[prefix_.size()] == '/'))
      return true;
  }
  return false;
}

}  // namespace lockstep::daemon
