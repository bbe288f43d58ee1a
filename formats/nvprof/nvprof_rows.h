// NvprofRows converts the rows of nvprof's trace into entries of a capture, one per device.
#ifndef LOCKSTEP_FORMATS_NVPROF_NVPROF_ROWS_H_
#define LOCKSTEP_FORMATS_NVPROF_NVPROF_ROWS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "capture/model/capture.h"
#include "formats/nvprof/nvprof_table.h"

namespace lockstep::formats {

// One thread. `table` holds the row that Add() reads, and receives the description of an error.
class NvprofRows {
 public:
  // Both outlive this object. `strings` receives the names.
  NvprofRows(NvprofTable& table, capture::StringTable& strings) : table_(table), strings_(strings) {}

  // False: the table has the error.
  bool Add();

  // Call it once, after the last row. It is empty if there was no device work.
  std::vector<capture::RankData> Take();

  bool has_calls() const { return has_calls_; }
  // Rows of other kinds: unified memory, ranges, marks.
  uint64_t left_out() const { return left_out_; }

 private:
  struct Times {
    HostTime start;
    HostTime end;
  };

  bool AddCopy(std::string_view kind);
  bool AddSet();
  bool AddKernel(std::string_view name);
  bool AddCall(std::string_view name);
  // Adds a copy or a set; `detail` lacks its sizes and its context.
  bool AddMemoryWork(capture::ActivityKind kind, capture::CopyDetail detail);
  bool ReadTimes(Times& out);
  bool ReadActivity(capture::DeviceActivity& out);
  bool ReadKernelDetail(capture::KernelDetail& out);
  // Returns the entry of the row's device; null: the table has the error.
  capture::RankData* Entry();

  NvprofTable& table_;
  capture::StringTable& strings_;
  std::vector<capture::RankData> entries_;
  absl::flat_hash_map<std::string, size_t> entry_of_;  // by the text of the column
  std::vector<capture::ApiCall> calls_;
  bool has_calls_ = false;
  uint64_t left_out_ = 0;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_NVPROF_NVPROF_ROWS_H_
