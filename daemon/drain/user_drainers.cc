#include "daemon/drain/user_drainers.h"

#include <utility>

namespace lockstep::daemon {

uint64_t UserDrainers::Begin(uid_t uid, const ProcessId& process, std::shared_ptr<DaemonSegment> segment,
                             uint64_t incarnation, const std::string& capture, std::shared_ptr<Spool> spool) {
  RemoveIdle();
  std::unique_ptr<Drainer>& drainer = drainers_[uid];
  if (drainer == nullptr) drainer = std::make_unique<Drainer>(clock_);
  return drainer->Begin(process, std::move(segment), incarnation, capture, std::move(spool));
}

// A drainer ignores a process that it does not have.
void UserDrainers::Restart(const ProcessId& process) {
  for (const auto& [uid, drainer] : drainers_) drainer->Restart(process);
}

void UserDrainers::End(const ProcessId& process, const DrainEnd& end) {
  for (const auto& [uid, drainer] : drainers_) drainer->End(process, end);
}

void UserDrainers::Abandon(const ProcessId& process) {
  for (const auto& [uid, drainer] : drainers_) drainer->Abandon(process);
}

DrainStats UserDrainers::stats() const {
  DrainStats sum = removed_;
  for (const auto& [uid, drainer] : drainers_) sum += drainer->stats();
  return sum;
}

void UserDrainers::RemoveIdle() {
  std::erase_if(drainers_, [this](const auto& entry) {
    if (!entry.second->idle()) return false;
    removed_ += entry.second->stats();
    return true;
  });
}

}  // namespace lockstep::daemon
