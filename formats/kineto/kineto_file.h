// The content of one Kineto trace, before ranks are named and files are joined.
#ifndef LOCKSTEP_FORMATS_KINETO_KINETO_FILE_H_
#define LOCKSTEP_FORMATS_KINETO_KINETO_FILE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "capture/model/capture.h"
#include "capture/model/host_frames.h"
#include "capture/model/row_overflow.h"
#include "formats/common/interval_union.h"
#include "formats/files/job_files.h"
#include "formats/files/trace_files.h"
#include "formats/kineto/trace_document.h"

namespace lockstep::formats {

// The rows of one device. `group` of a collective indexes KinetoFile::groups.
struct KinetoDevice {
  DeviceId device;
  std::vector<capture::DeviceActivity> activities;
  std::vector<capture::KernelDetail> kernel_details;
  std::vector<capture::CopyDetail> copy_details;
  std::vector<capture::Collective> collectives;
};

// A collective that a host row `record_param_comms` describes. `group` indexes KinetoFile::groups.
struct AnnouncedCollective {
  HostTime start;
  ThreadId thread;
  capture::Collective collective;
};

struct KinetoSync {
  DeviceId device;
  capture::Sync sync;
  capture::EventRecord
      record;  // the event record that it waits for; its event is kNone if the row does not name one
};

// Hardware counters of kernels or ranges, which the profiler records instead of device activity. The values
// are not kept, because the profiler spreads the ranges evenly over the recording and their times mean
// nothing.
struct KinetoCounters {
  static constexpr size_t kMostMetrics = 64;
  uint64_t ranges = 0;
  std::set<std::string> metrics;  // names; at most kMostMetrics

  // Returns "1500 ranges with hardware counters (cuda_profiler_range: NAME, NAME, …)".
  std::string Describe() const;
};

// The member `lockstep` of a file that Lockstep wrote (docs/formats/kineto.md).
struct KinetoOwnMember {
  HostInterval window;  // requested window, in the file's stamps
  uint32_t incarnation = 1;
  std::string device_uuid;
  std::vector<capture::Loss> losses;  // without their times
};

// Rows are in the order of the file. Time stamps are those of the file, without `base`. Names index
// `strings`.
struct KinetoFile {
  capture::StringTable strings;
  std::vector<KinetoDevice> devices;
  std::vector<KinetoSync> syncs;
  std::vector<capture::ApiCall> api_calls;
  std::vector<AnnouncedCollective> announced;
  std::vector<capture::HostRange> ranges;
  IntervalUnion operators;
  IntervalUnion data_loader;
  KinetoCounters counters;
  capture::HostFrames frames;  // in the order of the file; empty with HostDetail::kUnions
  std::vector<capture::Group> groups;
  int32_t pid = 0;                                        // of the host rows; 0: no host row has one
  HostInterval window{HostTime::Max(), HostTime::Min()};  // of all rows; empty: no row has a time
  uint64_t rows = 0;
  DamageLog damage;

  // Members of the document.
  std::optional<RankId> rank;
  int32_t world_size = 0;  // 0: unknown
  std::string host_name;
  Nanos base;
  std::map<uint32_t, capture::DeviceProperties> properties;
  std::optional<KinetoOwnMember> own;  // nullopt: another program wrote the file

  std::string broken_off;  // reason why reading stopped before the end; empty: it reached the end
  bool has_events = false;
  bool is_json = false;
};

// Moves a stamp of the file to the clock of the host. Their sum may overflow in a damaged file. The stamp
// then stays unchanged.
inline HostTime AddBase(Nanos base, HostTime stamp) {
  int64_t sum = 0;
  return __builtin_add_overflow(stamp.ns(), base.ns(), &sum) ? stamp : HostTime(sum);
}

// Returns the time of all rows, on the clock of the host.
HostInterval RowsOf(const KinetoFile& file);

// Returns the reason why a file cannot be analysed, as the end of a sentence that begins with its name.
// Empty: the file can be analysed.
std::string UnusableReason(const KinetoFile& file);

struct ReadFile {
  TraceFile from;
  KinetoFile content;
  bool thin = false;  // true: `content` lacks the rows, names and groups
};

// Gives the tables of a file that was read to `overflow`.
void MoveRows(KinetoFile& file, capture::RowOverflow& overflow);
// Reports that the rows of a file, which MoveRows() reported, will be freed.
void RemoveRows(const KinetoFile& file, capture::RowOverflow& overflow);

// Frees all that FactsOf() does not need.
void MakeThin(ReadFile& file);

// Returns the facts by which ChooseFiles() chooses.
JobFile FactsOf(const ReadFile& file);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_KINETO_FILE_H_
