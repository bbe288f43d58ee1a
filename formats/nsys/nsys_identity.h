// NsysIdentity assigns the ids of processes and threads in an nsys export, and chooses its time 0.
#ifndef LOCKSTEP_FORMATS_NSYS_NSYS_IDENTITY_H_
#define LOCKSTEP_FORMATS_NSYS_NSYS_IDENTITY_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "capture/align/clock_model.h"
#include "capture/model/capture.h"

namespace lockstep::formats {

// The identity of one entry of Capture::ranks. Entries of one process share its number and differ in their
// device.
struct NsysEntry {
  int64_t global_pid = 0;
  uint32_t process = 0;  // from 0; entries of one process share it
  Nanos shift;           // from the rank's host clock to the job's clock
  bool first_of_process = true;
  bool writes_ranges = true;  // false: an earlier entry of the process has the same ranges
};

// `capture` outlives it. One thread.
class NsysIdentity {
 public:
  NsysIdentity(const capture::Capture& capture, const capture::ClockModel& clock);

  const NsysEntry& Of(size_t rank_index) const { return entries_[rank_index]; }
  // Returns the host's number in the upper bits of global ids. capture::kNone has one, too.
  int64_t MachineOf(uint32_t host) const;
  // UTC of the file's time 0.
  JobTime base() const { return base_; }
  int64_t FileTime(size_t rank_index, HostTime t) const {
    return (t + entries_[rank_index].shift).ns() - base_.ns();
  }

  // Returns the thread's global id. A thread number that does not fit is replaced.
  int64_t GlobalTid(size_t rank_index, ThreadId thread);

 private:
  void NameProcesses();
  void FindBase();

  const capture::Capture& capture_;
  std::vector<NsysEntry> entries_;
  JobTime base_;
  // The replaced threads: (process, thread) → global id.
  std::map<std::pair<int64_t, int64_t>, int64_t> threads_;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_NSYS_NSYS_IDENTITY_H_
