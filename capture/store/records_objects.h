// What CUPTI tells of one client process's devices and of what is on them, between its blocks and the
// capture's entries.
#ifndef LOCKSTEP_AGGREGATOR_STORE_RECORDS_OBJECTS_H_
#define LOCKSTEP_AGGREGATOR_STORE_RECORDS_OBJECTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/model/block_rows.h"
#include "capture/model/capture.h"

namespace lockstep::store {

// Not thread-safe. A device, context or stream may be told of more than once: the last word holds.
class ProcessObjects {
 public:
  void AddDevice(const BlockRows& rows, uint32_t row, std::string_view name);
  void AddContexts(const BlockRows& rows);
  void AddStreams(const BlockRows& rows);
  // `time` is one that a clock can have made.
  void AddMemoryOp(const BlockRows& rows, uint32_t row);

  // The one that all contexts are on; nullopt where they are on several, or none is known.
  std::optional<DeviceId> OnlyDevice() const;
  // Gives `entry` what is known of its device: properties, contexts, their streams, memory operations.
  void Describe(RankData& entry) const;
  // Gives it also what is on devices that are not in `with_entries` (sorted): nothing ran there, but it is
  // there.
  void DescribeRest(const std::vector<uint32_t>& with_entries, RankData& entry) const;

 private:
  template <typename Belongs>
  void Give(Belongs belongs, RankData& entry) const;

  std::map<uint32_t, DeviceProperties> devices_;
  std::map<uint32_t, DeviceContext> contexts_;
  std::map<std::pair<uint32_t, uint32_t>, DeviceStream> streams_;  // by context and stream
  std::vector<MemoryOp> memory_ops_;
  std::vector<uint32_t> memory_devices_;  // of memory_ops_
};

// "GPU-01020304-0506-0708-090a-0b0c0d0e0f10"; empty for all zeros. First byte highest.
std::string UuidText(std::string_view prefix, uint64_t first, uint64_t last);

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_RECORDS_OBJECTS_H_
