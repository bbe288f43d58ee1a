// TimelineRows reads the rows of a timeline: the steps, device work, calls, waits, ranges and losses of
// ranks.
#ifndef LOCKSTEP_FORMATS_TIMELINE_TIMELINE_ROWS_H_
#define LOCKSTEP_FORMATS_TIMELINE_TIMELINE_ROWS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "capture/model/capture.h"
#include "formats/timeline/timeline_fields.h"
#include "formats/timeline/timeline_words.h"

namespace lockstep::formats {

// One thread. A function that returns false has described the error in `fields`.
class TimelineRows {
 public:
  // `capture` receives the rows. Both must outlive this object.
  TimelineRows(capture::Capture& capture, TimelineFields& fields) : capture_(capture), fields_(fields) {}

  // Defines the next name; rows refer to names by number.
  void AddName(NameId name) { names_.push_back(name); }
  // Sets the time to which the following rows' starts are added.
  void SetBase(int64_t base) { base_ = base; }
  // The following rows belong to this entry of Capture::ranks.
  void Enter(size_t rank) { rank_ = rank; }
  // Reads the row behind its first word.
  bool Read(char kind, LineWords& words);

 private:
  bool StepRow(LineWords& words);
  bool KernelRow(LineWords& words);
  bool CollectiveRow(LineWords& words);
  bool MoreCollective(LineWords& words);
  bool CopyRow(LineWords& words, capture::ActivityKind kind);
  bool CallRow(LineWords& words);
  bool SyncRow(LineWords& words);
  bool EventRow(LineWords& words);
  bool RangeRow(LineWords& words);
  bool LossRow(LineWords& words);
  bool ClockRow(LineWords& words);

  bool Times(LineWords& words, HostTime& start, HostTime& end);
  bool NameAt(std::string_view word, NameId& out);
  bool Activity(LineWords& words, capture::ActivityKind kind, capture::DeviceActivity& out);
  // Reads a field of a kernel: correlation, grid, block, registers, shared memory. `used`: the field was one
  // of these.
  bool KernelField(std::string_view key, std::string_view value, capture::DeviceActivity& activity,
                   bool& used);
  bool Dimensions(std::string_view key, std::string_view word, uint32_t (&out)[3]);
  bool CollectiveFields(LineWords& words, capture::DeviceActivity* activity, capture::Collective& out);

  capture::RankData& rank() { return capture_.ranks[rank_]; }
  // Extends the rank's window.
  void Cover(HostTime start, HostTime end);

  capture::Capture& capture_;
  TimelineFields& fields_;
  std::vector<NameId> names_;  // by number
  absl::flat_hash_map<int64_t, NameId> step_names_;
  size_t rank_ = SIZE_MAX;
  int64_t base_ = 0;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_TIMELINE_TIMELINE_ROWS_H_
