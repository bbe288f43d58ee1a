// What one nsys SQLite export holds, before ranks are named and files are joined.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NSYS_FILE_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NSYS_FILE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "capture/model/capture.h"
#include "formats/common/interval_union.h"
#include "formats/nsys/nsys_payload.h"
#include "formats/nsys/table_scan.h"

namespace lockstep::trace {

// The rows of one device of one process.
struct NsysDevice {
  DeviceId device;
  std::vector<store::DeviceActivity> activities;
  std::vector<store::KernelDetail> kernel_details;
  std::vector<store::CopyDetail> copy_details;
  std::vector<store::Sync> syncs;
  std::vector<store::EventRecord> event_records;
  uint64_t graphs = 0;  // recorded as wholes, without their kernels
};

// A call of NCCL, as its NVTX range tells it.
struct NcclCall {
  HostTime start;
  HostTime end;
  ThreadId thread;
  NameId name;
  std::optional<NcclPayload> payload;
};

// A process that used a device.
struct NsysProcess {
  int64_t global_pid = 0;
  std::string name;
  std::vector<NsysDevice> devices;
  std::vector<store::ApiCall> api_calls;
  std::vector<store::HostRange> ranges;           // `domain` holds the number, not a name
  std::vector<store::HostRange> operator_ranges;  // of PyTorch's emit_nvtx; only with HostDetail::kFrames
  std::vector<uint32_t> open_ranges;              // places of those without an end
  std::map<int64_t, NameId> domains;
  std::vector<NcclCall> nccl_calls;
  std::vector<store::ThreadName> thread_names;
  IntervalUnion operators;
  IntervalUnion data_loader;
  HostInterval window{HostTime::Max(), HostTime::Min()};  // of all rows
  std::optional<RankId> mpi_rank;

  NsysDevice& Device(DeviceId device);
};

// Stamps are UTC: the session's start is added.
struct NsysFile {
  store::StringTable strings;
  std::map<int64_t, NsysProcess> processes;   // by global pid
  std::map<int64_t, std::string> host_names;  // by global id of the machine
  std::map<std::string, std::string, std::less<>>
      environment;                                  // of the command that was profiled: what tells a rank
  std::map<int64_t, store::DeviceProperties> gpus;  // by TARGET_INFO_GPU.id
  std::map<std::pair<int32_t, DeviceId>, int64_t> gpu_of;  // by pid and CUDA's number
  std::map<int64_t, std::string> reductions;               // NCCL's operations, where the file names them
  JobTime base;                                            // of the file's time 0
  bool has_own_tables = false;                             // of this version of ours
  bool has_calls = false;
  bool has_ranges = false;
  TableLosses losses;
  std::string damage;  // of the file as such; empty: nothing shows
};

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NSYS_FILE_H_
