#include "formats/nsys/nsys_identity.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "formats/common/job_shift.h"
#include "formats/nsys/nsys_schema.h"

namespace lockstep::trace {
namespace {

using store::RankData;

constexpr int64_t kMostMachines = 0x7FFF;
// Beyond any pid or thread id of Linux (4,194,304): numbers that stand for others.
constexpr int64_t kMadeUp = int64_t{1} << 23;
// For processes whose pid is not known, as in our Kineto traces.
constexpr int64_t kUnknownPid = 1000000;

bool SameRanges(const std::vector<store::HostRange>& a, const std::vector<store::HostRange>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const store::HostRange& x, const store::HostRange& y) {
                      return std::tie(x.start, x.end, x.name, x.domain, x.thread) ==
                             std::tie(y.start, y.end, y.name, y.domain, y.thread);
                    });
}

}  // namespace

NsysIdentity::NsysIdentity(const store::Capture& capture, const align::ClockModel& clock)
    : capture_(capture), entries_(capture.ranks.size()) {
  for (size_t i = 0; i < entries_.size(); ++i) entries_[i].shift = JobShift(clock, capture.ranks[i]);
  NameProcesses();
  FindBase();
}

int64_t NsysIdentity::MachineOf(uint32_t host) const {
  return std::min<int64_t>(std::min<int64_t>(host, static_cast<int64_t>(capture_.hosts.size())) + 1,
                           kMostMachines);
}

void NsysIdentity::NameProcesses() {
  struct Process {
    std::tuple<RankId, uint32_t> who;
    std::set<DeviceId> devices;
    size_t first = 0;
  };
  std::map<int64_t, Process> processes;
  int64_t made_up = kMadeUp;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const RankData& rank = capture_.ranks[i];
    const int64_t machine = MachineOf(rank.host);
    const std::tuple<RankId, uint32_t> who(rank.rank, rank.incarnation);
    const int64_t pid = rank.pid > 0 && rank.pid < kMadeUp
                            ? rank.pid
                            : kUnknownPid + std::clamp(rank.rank.value(), 0, 1 << 22);
    int64_t global = nsys::GlobalId(machine, pid, 0);
    auto [it, fresh] = processes.try_emplace(global, Process{.who = who, .devices = {}, .first = i});
    // Pids of containers repeat on one machine.
    if (!fresh && (it->second.who != who || it->second.devices.contains(rank.device))) {
      global = nsys::GlobalId(machine, made_up++ % nsys::kIdLimit, 0);
      std::tie(it, fresh) = processes.try_emplace(global, Process{.who = who, .devices = {}, .first = i});
    }
    it->second.devices.insert(rank.device);
    NsysEntry& entry = entries_[i];
    entry.global_pid = global;
    entry.first_of_process = fresh;
    entry.has_ranges = !rank.ranges.empty();
    entry.writes_ranges = fresh || !SameRanges(rank.ranges, capture_.ranks[it->second.first].ranges);
  }
}

// The earliest window's start; where nothing has a window, the earliest device activity.
void NsysIdentity::FindBase() {
  int64_t earliest = JobTime::Max().ns();
  for (size_t i = 0; i < entries_.size(); ++i) {
    const RankData& rank = capture_.ranks[i];
    const bool has_window = rank.window.end > rank.window.start;
    if (!has_window && rank.activities.empty()) continue;
    const HostTime first = has_window ? rank.window.start : rank.activities.front().start;
    earliest = std::min(earliest, (first + entries_[i].shift).ns());
  }
  base_ = earliest == JobTime::Max().ns() ? JobTime() : JobTime(earliest);
}

int64_t NsysIdentity::GlobalTid(size_t rank_index, ThreadId thread) {
  const int64_t process = entries_[rank_index].global_pid;
  const int64_t tid = thread.value();
  if (tid >= 0 && tid < kMadeUp) return process | tid;
  const auto next = kMadeUp + static_cast<int64_t>(threads_.size()) % kMadeUp;
  return threads_.try_emplace({process, tid}, process | next).first->second;
}

}  // namespace lockstep::trace
