// Who and when in an nsys export: the numbers that stand for a capture's processes and threads, and the time
// that its stamps count from.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NSYS_IDENTITY_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NSYS_IDENTITY_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "capture/align/clock_model.h"
#include "capture/model/capture.h"

namespace lockstep::trace {

// Of one entry of Capture::ranks. Entries of one process share its number and differ in their device.
struct NsysEntry {
  int64_t global_pid = 0;
  Nanos shift;  // from the rank's host clock to the job's
  bool first_of_process = true;
  bool has_ranges = true;     // the process's ranges are this entry's
  bool writes_ranges = true;  // and nobody before it has written them
};

// Refers to the capture.
class NsysIdentity {
 public:
  NsysIdentity(const store::Capture& capture, const align::ClockModel& clock);

  const NsysEntry& Of(size_t rank_index) const { return entries_[rank_index]; }
  // Machine of a host in the upper bits of global ids; store::kNone has one too.
  int64_t MachineOf(uint32_t host) const;
  // UTC at the file's time 0.
  JobTime base() const { return base_; }
  int64_t FileTime(size_t rank_index, HostTime t) const {
    return (t + entries_[rank_index].shift).ns() - base_.ns();
  }

  // Thread numbers that do not fit get others, which threads() tells.
  int64_t GlobalTid(size_t rank_index, ThreadId thread);
  const std::map<std::pair<int64_t, int64_t>, int64_t>& threads() const {
    return threads_;
  }  // (process, thread) → global

 private:
  void NameProcesses();
  void FindBase();

  const store::Capture& capture_;
  std::vector<NsysEntry> entries_;
  JobTime base_;
  std::map<std::pair<int64_t, int64_t>, int64_t> threads_;
};

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NSYS_IDENTITY_H_
