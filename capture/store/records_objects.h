// Collects CUPTI's reports on one client process's devices, contexts, streams and memory operations. They
// come from blocks and go to the capture's entries.
#ifndef LOCKSTEP_CAPTURE_STORE_RECORDS_OBJECTS_H_
#define LOCKSTEP_CAPTURE_STORE_RECORDS_OBJECTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/model/block_rows.h"
#include "capture/model/capture.h"

namespace lockstep::capture {

// Not thread-safe. A device, context or stream may be reported more than once; the last report counts.
class ProcessObjects {
 public:
  void AddDevice(const BlockRows& rows, uint32_t row, std::string_view name);
  void AddContexts(const BlockRows& rows);
  void AddStreams(const BlockRows& rows);
  // Requires a row with a plausible time.
  void AddMemoryOp(const BlockRows& rows, uint32_t row);

  // The device of all contexts. nullopt: they are on several devices, or none is known.
  std::optional<DeviceId> OnlyDevice() const;
  // Adds the known facts of its device to `entry`: properties, contexts, streams, memory operations.
  void Describe(RankData& entry) const;
  // Also adds the objects on devices outside `with_entries` (sorted). Nothing ran on those devices.
  void DescribeRest(const std::vector<uint32_t>& with_entries, RankData& entry) const;

 private:
  template <typename Belongs>
  void Give(Belongs belongs, RankData& entry) const;

  std::map<uint32_t, DeviceProperties> devices_;
  std::map<uint32_t, DeviceContext> contexts_;
  std::map<std::pair<uint32_t, uint32_t>, DeviceStream> streams_;  // by context and stream
  std::vector<MemoryOp> memory_ops_;
  std::vector<uint32_t> memory_devices_;  // device of each of memory_ops_
};

// "GPU-01020304-0506-0708-090a-0b0c0d0e0f10", highest byte first. Empty if all bytes are 0.
std::string UuidText(std::string_view prefix, uint64_t first, uint64_t last);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_STORE_RECORDS_OBJECTS_H_
