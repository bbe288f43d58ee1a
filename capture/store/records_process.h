// The rows of one client process as tables, which LoadRecords fills from blocks.
#ifndef LOCKSTEP_CAPTURE_STORE_RECORDS_PROCESS_H_
#define LOCKSTEP_CAPTURE_STORE_RECORDS_PROCESS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "capture/model/block_rows.h"
#include "capture/model/capture.h"
#include "capture/store/records_blocks.h"
#include "capture/store/records_objects.h"
#include "wire/columns/columns.h"

namespace lockstep::capture {

// A communicator as one member describes it.
struct CommunicatorRow {
  uint64_t comm = 0;
  NameId name;
  int32_t rank = -1;
  int32_t ranks = 0;
  int32_t device = -1;  // CUDA ordinal; -1: unknown
};

// A collective, send or receive as NCCL's profiler or its NVTX payload describes it, not yet joined to its
// kernel.
struct NcclRow {
  uint64_t comm = 0;  // 0: unknown
  uint64_t launch = 0;
  int64_t sequence = -1;
  uint64_t count = 0;
  NameId datatype;
  CollectiveOp op = CollectiveOp::kUnknown;
  int32_t root = -1;
  int32_t peer = -1;
  bool from_nvtx = false;       // then `bytes` is valid, and count, datatype and sequence are not
  bool local_sequence = false;  // other ranks may number it differently
  uint64_t bytes = 0;
  uint64_t operation = 0;
  NameId reduction;
};

// NCCL's report on one channel of a kernel.
struct ChannelRow {
  HostTime start;  // as NCCL's proxy thread saw it
  HostTime end;
  uint64_t gpu_start = 0;  // globaltimer; 0: unknown
  uint64_t gpu_length = 0;
  uint64_t operation = 0;
  uint32_t channel = 0;
};

struct ProxyRow {
  uint64_t comm = 0;
  ProxyOp op;
};

// Not thread-safe. All input comes from foreign processes. Rows that end before their start, or lie outside
// any calendar, are refused and counted.
class ProcessTables {
 public:
  // String ids start again in each segment. Call this before the blocks of each file.
  void BeginSegment() { strings_.clear(); }
  void AddStrings(const columns::DecodedBlock& block, StringTable& table);
  void AddRows(const columns::DecodedBlock& block, const StringTable& table);

  // The tables of all devices of the process together; device[i] belongs to data.activities[i].
  RankData data;
  std::vector<uint32_t> device;
  std::vector<CommunicatorRow> communicators;
  std::vector<NcclRow> nccl;
  std::vector<ChannelRow> channels;
  std::vector<ProxyRow> proxy_ops;
  ProcessObjects objects;
  std::vector<std::pair<uint64_t, CorrelationId>>
      launches;             // our launch serial, and a correlation that was made under it
  uint64_t names_lost = 0;  // rows kept without their name
  uint64_t begun_unseen =
      0;  // ranges that began before the client was ready: they have no name, and begin with the window
  bool damaged = false;  // a file of it could not be read in whole
  RowCounts read = {};
  RowCounts refused = {};

 private:
  NameId Name(uint64_t id);
  bool Accept(columns::Kind kind, int64_t start, int64_t duration);
  void AddKernels(const BlockRows& rows);
  void AddCopies(const BlockRows& rows);
  void AddSets(const BlockRows& rows);
  void AddCalls(const BlockRows& rows);
  void AddSyncs(const BlockRows& rows);
  void AddEvents(const BlockRows& rows);
  void AddRanges(const BlockRows& rows);
  void AddNccl(const BlockRows& rows, const StringTable& table);
  void AddObjects(const BlockRows& rows, const StringTable& table);
  void AddChannels(const BlockRows& rows);
  void AddProxyOps(const BlockRows& rows);
  void AddClocks(const BlockRows& rows);

  // epoch → id → name
  absl::flat_hash_map<uint64_t, absl::flat_hash_map<uint32_t, NameId>> strings_;
  const absl::flat_hash_map<uint32_t, NameId>* names_ = nullptr;  // of the block being added
};

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_STORE_RECORDS_PROCESS_H_
