// The content of one nsys SQLite export, before ranks are named and files are joined.
#ifndef LOCKSTEP_FORMATS_NSYS_NSYS_FILE_H_
#define LOCKSTEP_FORMATS_NSYS_NSYS_FILE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "capture/model/capture.h"
#include "capture/model/row_overflow.h"
#include "formats/common/interval_union.h"
#include "formats/nsys/nsys_payload.h"
#include "formats/nsys/table_scan.h"

namespace lockstep::formats {

// The rows of one device of one process.
struct NsysDevice {
  DeviceId device;
  std::vector<capture::DeviceActivity> activities;
  std::vector<capture::KernelDetail> kernel_details;
  std::vector<capture::CopyDetail> copy_details;
  std::vector<capture::Sync> syncs;
  std::vector<capture::EventRecord> event_records;
  uint64_t graphs = 0;  // recorded as wholes, without their kernels
};

// A call of NCCL, from its NVTX range.
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
  std::vector<capture::ApiCall> api_calls;
  std::vector<capture::HostRange> ranges;           // `domain` holds the domain's number, not a name
  std::vector<capture::HostRange> operator_ranges;  // of PyTorch's emit_nvtx; only with HostDetail::kFrames
  std::vector<uint32_t> open_ranges;                // places in `ranges` of those without an end
  std::map<int64_t, NameId> domains;
  std::vector<NcclCall> nccl_calls;
  std::vector<capture::ThreadName> thread_names;
  IntervalUnion operators;
  IntervalUnion data_loader;
  HostInterval window{HostTime::Max(), HostTime::Min()};  // of all rows
  std::optional<RankId> mpi_rank;

  NsysDevice& Device(DeviceId device);
};

// Gives the tables of a process to `overflow` once its file was read.
void MoveRows(NsysProcess& process, capture::RowOverflow& overflow);

// Time stamps are UTC: the session's start is added.
struct NsysFile {
  capture::StringTable strings;
  std::map<int64_t, NsysProcess> processes;                     // by global pid
  std::map<int64_t, std::string> host_names;                    // by global id of the machine
  std::map<std::string, std::string, std::less<>> environment;  // of the profiled command; may name the rank
  std::map<int64_t, capture::DeviceProperties> gpus;            // by TARGET_INFO_GPU.id
  std::map<std::pair<int32_t, DeviceId>, int64_t> gpu_of;       // by pid and CUDA's number of the device
  std::map<int64_t, std::string> reductions;  // names of NCCL's reductions, if the file has them
  JobTime base;                               // UTC of the file's time 0
  bool has_calls = false;
  bool has_ranges = false;
  TableLosses losses;
  std::string damage;  // of the file as a whole; empty: no damage found
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_NSYS_NSYS_FILE_H_
