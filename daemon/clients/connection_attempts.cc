#include "daemon/clients/connection_attempts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::daemon {
namespace {

constexpr Nanos kCurrent = Nanos::Seconds(30);

}  // namespace

void ConnectionAttempts::NoteProbe(const ProcessId& process) {
  if (!probes_.insert(process).second) return;
  probe_order_.push_back(process);
  if (probe_order_.size() <= kMostProbes) return;
  probes_.erase(probe_order_.front());
  probe_order_.pop_front();
}

bool ConnectionAttempts::IsCurrent(const Entry& entry) const {
  return clock_.Monotonic() - entry.last <= kCurrent;
}

void ConnectionAttempts::NoteRefused(Refusal refusal) {
  const auto same = std::find_if(refused_.begin(), refused_.end(), [&](const Entry& e) {
    return e.refusal.uid == refusal.uid && e.refusal.who == refusal.who && e.refusal.reason == refusal.reason;
  });
  if (same != refused_.end()) refused_.erase(same);
  while (!refused_.empty() && !IsCurrent(refused_.front())) refused_.pop_front();
  if (refused_.empty()) dropped_ = 0;
  if (refused_.size() >= kMostRefused) {
    refused_.pop_front();
    ++dropped_;
  }
  refused_.push_back({std::move(refusal), clock_.Monotonic()});
}

void ConnectionAttempts::NoteAdmitted(int32_t pid) {
  refused_.erase(std::remove_if(refused_.begin(), refused_.end(),
                                [pid](const Entry& e) { return e.refusal.pid == pid; }),
                 refused_.end());
}

bool ConnectionAttempts::IsRefused(int32_t pid) const {
  return std::any_of(refused_.begin(), refused_.end(),
                     [&](const Entry& e) { return e.refusal.pid == pid && IsCurrent(e); });
}

std::vector<std::string> ConnectionAttempts::Refusals(uid_t uid) const {
  std::vector<std::string> out;
  for (const Entry& entry : refused_) {
    if (!IsCurrent(entry) || (uid != 0 && entry.refusal.uid != uid)) continue;
    out.push_back(absl::StrCat(entry.refusal.who, " was refused: ", entry.refusal.reason));
  }
  if (uid == 0 && !out.empty() && dropped_ > 0)
    out.push_back(absl::StrCat(dropped_, " more clients were refused"));
  return out;
}

bool ConnectionAttempts::IsPresent(int32_t pid) const {
  return std::any_of(present_.begin(), present_.end(), [&](const auto& one) { return one.first.pid == pid; });
}

std::vector<std::string> ConnectionAttempts::Presences(uid_t uid) const {
  std::vector<std::string> out;
  size_t others = 0;
  for (const auto& [process, present] : present_) {
    if (uid != 0 && present.uid != uid) continue;
    if (out.size() < kMostShown)
      out.push_back(absl::StrCat("pid ", process.pid, " (", present.program, ")"));
    else
      ++others;
  }
  if (others > 0) out.push_back(absl::StrCat(others, " more"));
  return out;
}

}  // namespace lockstep::daemon
