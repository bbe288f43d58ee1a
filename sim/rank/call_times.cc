#include "sim/rank/call_times.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>

#include "sim/rank/process_clock.h"

namespace lockstep::sim {
namespace {

constexpr Nanos kLine = Nanos::Millis(250);

}  // namespace

CallTimes::CallTimes(const std::string& folder, uint32_t rank, RankObserver& next)
    : next_(next),
      file_(fopen((folder + "/" + std::to_string(rank) + ".calls").c_str(), "we")),
      line_began_(MachineMonotonic()) {
  if (!ok())
    fprintf(stderr, "lockstep-sim-rank: cannot write call times to %s: %s\n", folder.c_str(),
            strerror(errno));
}

void CallTimes::OnCallStart(OpRun run, VirtualTime start) {
  const MonoTime before = MachineMonotonic();
  next_.OnCallStart(run, start);
  begun_[run] = MachineMonotonic() - before;
}

void CallTimes::OnCallEnd(OpRun run, VirtualTime start, VirtualTime end) {
  const MonoTime before = MachineMonotonic();
  next_.OnCallEnd(run, start, end);
  const MonoTime now = MachineMonotonic();
  if (const auto it = begun_.find(run); it != begun_.end()) {
    times_.push_back(it->second + (now - before));
    begun_.erase(it);
  }
  if (now - line_began_ >= kLine) WriteLine(now);
}

void CallTimes::WriteLine(MonoTime now) {
  line_began_ = now;
  if (!ok() || times_.empty()) return;
  std::sort(times_.begin(), times_.end());
  fprintf(file_.get(), "%" PRId64 " %zu %" PRId64 " %" PRId64 " %" PRId64 "\n", now.ns(), times_.size(),
          times_[times_.size() / 2].ns(), times_[times_.size() * 99 / 100].ns(), times_.back().ns());
  fflush(file_.get());
  times_.clear();
}

}  // namespace lockstep::sim
