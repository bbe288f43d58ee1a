#include "base/log/audit_chain.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/log/line_hash.h"

namespace lockstep {
namespace {

// Returns the value of a member whose value has no escapes, as `id` and `prev`.
std::optional<std::string_view> ValueOf(std::string_view line, std::string_view key) {
  const std::string begin = absl::StrCat(",\"", absl::string_view(key.data(), key.size()), "\":\"");
  const size_t at = line.find(begin);
  if (at == std::string_view::npos) return std::nullopt;
  const size_t from = at + begin.size();
  const size_t to = line.find('"', from);
  if (to == std::string_view::npos) return std::nullopt;
  return line.substr(from, to - from);
}

bool IsWhole(std::string_view line) { return line.starts_with("{\"v\":") && line.ends_with("}"); }

}  // namespace

std::string AuditChain::AddLine(std::string_view line) {
  if (!IsWhole(line)) {
    // A run may have begun after it.
    hashes_.insert(HashOfLine(line));
    ++torn_;
    return "";
  }
  const auto id = ValueOf(line, "id");
  const auto previous = ValueOf(line, "prev");
  if (!id || !previous)
    return "the line has no place in the chain: another program wrote it, or an earlier release";
  const std::string run(id->substr(0, id->find('-')));
  const std::string expected(*previous);
  if (lines_ == 0) begins_late_ = !expected.empty();
  const auto known = last_of_run_.find(run);
  std::string fault;
  if (known != last_of_run_.end()) {
    if (known->second != expected) fault = "the line before it was changed or removed";
  } else if (!expected.empty() && lines_ > 0 && !hashes_.contains(expected)) {
    fault = "the last line of an earlier run was changed or removed";
  }
  head_ = HashOfLine(line);
  last_of_run_[run] = head_;
  hashes_.insert(head_);
  ++lines_;
  return fault;
}

std::vector<AuditFault> AuditChain::Add(std::string_view text) {
  std::vector<AuditFault> faults;
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    if (line.empty()) continue;
    if (std::string fault = AddLine({line.data(), line.size()}); !fault.empty())
      faults.push_back({number, std::move(fault)});
  }
  return faults;
}

}  // namespace lockstep
