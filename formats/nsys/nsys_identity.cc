#include "formats/nsys/nsys_identity.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "formats/common/job_shift.h"
#include "formats/nsys/nsys_schema.h"

namespace lockstep::formats {
namespace {

using capture::RankData;

constexpr int64_t kMostMachines = 0x7FFF;
// The first replacement number. It is above every pid and thread id of Linux (4,194,304).
constexpr int64_t kFirstReplacementId = int64_t{1} << 23;
// Base of the pids of processes whose pid is unknown, as in our Kineto traces.
constexpr int64_t kUnknownPid = 1000000;

bool SameRanges(const std::vector<capture::HostRange>& a, const std::vector<capture::HostRange>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const capture::HostRange& x, const capture::HostRange& y) {
                      return std::tie(x.start, x.end, x.name, x.domain, x.thread) ==
                             std::tie(y.start, y.end, y.name, y.domain, y.thread);
                    });
}

}  // namespace

NsysIdentity::NsysIdentity(const capture::Capture& capture, const capture::ClockModel& clock)
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
    uint32_t number = 0;
  };
  std::map<int64_t, Process> processes;
  int64_t replacement = kFirstReplacementId;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const RankData& rank = capture_.ranks[i];
    const int64_t machine = MachineOf(rank.host);
    const std::tuple<RankId, uint32_t> who(rank.rank, rank.incarnation);
    const int64_t pid = rank.pid > 0 && rank.pid < kFirstReplacementId
                            ? rank.pid
                            : kUnknownPid + std::clamp(rank.rank.value(), 0, 1 << 22);
    int64_t global = nsys::GlobalId(machine, pid, 0);
    auto [it, fresh] = processes.try_emplace(global, Process{.who = who, .devices = {}, .first = i});
    // Processes in different containers of one machine may have the same pid.
    if (!fresh && (it->second.who != who || it->second.devices.contains(rank.device))) {
      global = nsys::GlobalId(machine, replacement++ % nsys::kIdLimit, 0);
      std::tie(it, fresh) = processes.try_emplace(global, Process{.who = who, .devices = {}, .first = i});
    }
    it->second.devices.insert(rank.device);
    if (fresh) it->second.number = static_cast<uint32_t>(processes.size() - 1);
    NsysEntry& entry = entries_[i];
    entry.global_pid = global;
    entry.process = it->second.number;
    entry.first_of_process = fresh;
    entry.writes_ranges = fresh || !SameRanges(rank.ranges, capture_.ranks[it->second.first].ranges);
  }
}

// Takes the earliest start of a window, or without windows the earliest device activity.
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
  if (tid >= 0 && tid < kFirstReplacementId) return process | tid;
  const auto next = kFirstReplacementId + static_cast<int64_t>(threads_.size()) % kFirstReplacementId;
  return threads_.try_emplace({process, tid}, process | next).first->second;
}

}  // namespace lockstep::formats
