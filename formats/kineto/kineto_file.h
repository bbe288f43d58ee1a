// What one Kineto trace holds, before ranks are named and files are joined.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_KINETO_FILE_H_
#define LOCKSTEP_AGGREGATOR_TRACE_KINETO_FILE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "capture/model/capture.h"
#include "capture/model/host_frames.h"
#include "formats/common/interval_union.h"
#include "formats/kineto/trace_document.h"

namespace lockstep::trace {

// The rows of one device. Collectives' groups index KinetoFile::groups.
struct KinetoDevice {
  DeviceId device;
  std::vector<store::DeviceActivity> activities;
  std::vector<store::KernelDetail> kernel_details;
  std::vector<store::CopyDetail> copy_details;
  std::vector<store::Collective> collectives;
};

struct KinetoSync {
  DeviceId device;
  store::Sync sync;
  store::EventRecord record;  // what it waits for; its event is kNone where the row does not say
};

// What one of our own files says besides: docs/formats/kineto.md.
struct KinetoOwnMember {
  HostInterval window;  // what was asked for, as the file's stamps
  uint32_t incarnation = 1;
  std::string device_uuid;
  std::vector<store::Loss> losses;  // without their times
};

// Rows are in the order of the file, stamps as the file has them: `base` is not added yet. Names index
// `strings`.
struct KinetoFile {
  store::StringTable strings;
  std::vector<KinetoDevice> devices;
  std::vector<KinetoSync> syncs;
  std::vector<store::ApiCall> api_calls;
  std::vector<store::HostRange> ranges;
  IntervalUnion operators;
  IntervalUnion data_loader;
  store::HostFrames frames;  // in the order of the file; empty with HostDetail::kUnions
  std::vector<store::Group> groups;
  int32_t pid = 0;                                        // of the host rows; 0: none had one
  HostInterval window{HostTime::Max(), HostTime::Min()};  // of all rows; empty: no row had a time
  uint64_t rows = 0;
  DamageLog damage;

  // From the document's members.
  std::optional<RankId> rank;
  int32_t world_size = 0;  // 0: not said
  std::string host_name;
  Nanos base;
  std::map<uint32_t, store::DeviceProperties> properties;
  std::optional<KinetoOwnMember> own;  // one of our files

  std::string broken_off;  // why reading stopped before the end; empty: it did not
  bool has_events = false;
  bool is_json = false;
};

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_KINETO_FILE_H_
