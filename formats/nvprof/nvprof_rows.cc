#include "formats/nvprof/nvprof_rows.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "formats/common/assign_api_calls.h"
#include "formats/common/text_lines.h"

namespace lockstep::formats {
namespace {

using Column = NvprofColumn;

constexpr char kAnotherTrace[] = "print the trace again with nvprof --print-gpu-trace --csv";
// More than a process can use.
constexpr size_t kMostDevices = 256;

// CUPTI's numbers (CUpti_ActivityMemcpyKind). 0: unknown.
uint8_t CopyKind(std::string_view text) {
  constexpr std::array<std::string_view, 11> kKinds = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                                       "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  const auto found = std::find(kKinds.begin() + 1, kKinds.end(), text.substr(0, 4));
  return found == kKinds.end() ? 0 : static_cast<uint8_t>(found - kKinds.begin());
}

// CUPTI's numbers (CUpti_ActivityMemoryKind). 0: unknown.
uint8_t MemoryKind(std::string_view text) {
  constexpr std::array<std::string_view, 8> kKinds = {"",      "Pageable", "Pinned",        "Device",
                                                      "Array", "Managed",  "Device Static", "Managed Static"};
  const auto found = std::find(kKinds.begin() + 1, kKinds.end(), text);
  return found == kKinds.end() ? 0 : static_cast<uint8_t>(found - kKinds.begin());
}

// Splits "name (7)" or "name [7]" into the name and the number. False: it has no number.
bool SplitNumber(std::string_view text, std::string_view brackets, std::string_view& name, uint32_t& number) {
  const size_t open = text.rfind(brackets[0]);
  if (open == std::string_view::npos || open == 0 || text[open - 1] != ' ' || text.back() != brackets[1])
    return false;
  const std::string_view digits = text.substr(open + 1, text.size() - open - 2);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return false;
  name = text.substr(0, open - 1);
  return true;
}

uint32_t SizeOf(std::optional<double> bytes) {
  return static_cast<uint32_t>(std::min<double>(std::llround(bytes.value_or(0)), UINT32_MAX));
}

}  // namespace

bool NvprofRows::Add() {
  const std::string_view name = table_.Text(Column::kName);
  constexpr std::string_view kCopy = "[CUDA memcpy ";
  if (name.empty()) return table_.Fail("the row has no name", kAnotherTrace);
  if (name.starts_with(kCopy)) return AddCopy(name.substr(kCopy.size()));
  if (name.starts_with("[CUDA memset")) return AddSet();
  if (!table_.Text(Column::kDevice).empty() && name[0] != '[') return AddKernel(name);
  if (name.starts_with("cu")) return AddCall(name);
  ++left_out_;
  return true;
}

bool NvprofRows::ReadTimes(Times& out) {
  int64_t start = 0;
  int64_t duration = 0;
  if (!table_.Time(Column::kStart, start) || !table_.Time(Column::kDuration, duration)) return false;
  out = {HostTime(start), HostTime(start + duration)};
  return true;
}

capture::RankData* NvprofRows::Entry() {
  const std::string device(table_.Text(Column::kDevice));
  if (const auto known = entry_of_.find(device); known != entry_of_.end()) return &entries_[known->second];
  std::string_view name;
  uint32_t number = 0;
  if (!SplitNumber(device, "()", name, number)) {
    table_.Fail(absl::StrCat(ShownWord(device), " is not a device such as \"Tesla V100 (0)\""),
                kAnotherTrace);
    return nullptr;
  }
  const auto same = [&](const capture::RankData& entry) { return entry.device == DeviceId(number); };
  if (entries_.size() == kMostDevices || std::any_of(entries_.begin(), entries_.end(), same)) {
    table_.Fail(absl::StrCat(ShownWord(device), " is a device too many, or another one with this number"),
                "give the trace of one process");
    return nullptr;
  }
  entry_of_.emplace(device, entries_.size());
  capture::RankData& entry = entries_.emplace_back();
  entry.device = DeviceId(number);
  entry.properties.name = name;
  entry.has_properties = true;
  return &entry;
}

bool NvprofRows::ReadActivity(capture::DeviceActivity& out) {
  Times times;
  uint32_t stream = 0;
  if (!ReadTimes(times) || !table_.Integer(Column::kStream, stream)) return false;
  out.start = times.start;
  out.end = times.end;
  out.stream = StreamId(stream);
  uint32_t correlation = 0;
  if (!table_.Integer(Column::kCorrelation, correlation)) return false;
  out.correlation = CorrelationId(correlation);
  return true;
}

bool NvprofRows::AddMemoryWork(capture::ActivityKind kind, capture::CopyDetail detail) {
  constexpr double kGigabyte = 1e9;
  capture::DeviceActivity activity{.kind = kind};
  std::optional<double> bytes;
  std::optional<double> bytes_per_s;
  uint32_t context = 0;
  if (!ReadActivity(activity) || !table_.Bytes(Column::kSize, bytes) ||
      !table_.Bytes(Column::kThroughput, bytes_per_s) || !table_.Integer(Column::kContext, context))
    return false;
  capture::RankData* const entry = Entry();
  if (entry == nullptr) return false;
  detail.bytes = static_cast<uint64_t>(std::llround(bytes.value_or(0)));
  detail.bandwidth_gb_per_s = bytes_per_s.value_or(0) / kGigabyte;
  detail.context = ContextId(context);
  activity.detail = static_cast<uint32_t>(entry->copy_details.size());
  entry->copy_details.push_back(detail);
  entry->activities.push_back(activity);
  return true;
}

bool NvprofRows::AddCopy(std::string_view kind) {
  return AddMemoryWork(capture::ActivityKind::kMemcpy,
                       {.copy_kind = CopyKind(kind),
                        .src_kind = MemoryKind(table_.Text(Column::kSourceMemory)),
                        .dst_kind = MemoryKind(table_.Text(Column::kTargetMemory))});
}

// nvprof names the memory of a set as that of a copy's source.
bool NvprofRows::AddSet() {
  return AddMemoryWork(capture::ActivityKind::kMemset,
                       {.dst_kind = MemoryKind(table_.Text(Column::kSourceMemory))});
}

bool NvprofRows::ReadKernelDetail(capture::KernelDetail& out) {
  std::optional<double> static_shared;
  std::optional<double> dynamic_shared;
  uint32_t context = 0;
  const bool read =
      table_.Integer(Column::kGridX, out.grid[0]) && table_.Integer(Column::kGridY, out.grid[1]) &&
      table_.Integer(Column::kGridZ, out.grid[2]) && table_.Integer(Column::kBlockX, out.block[0]) &&
      table_.Integer(Column::kBlockY, out.block[1]) && table_.Integer(Column::kBlockZ, out.block[2]) &&
      table_.Integer(Column::kRegisters, out.registers) && table_.Integer(Column::kContext, context) &&
      table_.Bytes(Column::kStaticShared, static_shared) &&
      table_.Bytes(Column::kDynamicShared, dynamic_shared);
  out.static_shared_bytes = SizeOf(static_shared);
  out.dynamic_shared_bytes = SizeOf(dynamic_shared);
  out.context = ContextId(context);
  return read;
}

bool NvprofRows::AddKernel(std::string_view name) {
  capture::DeviceActivity activity;
  capture::KernelDetail detail;
  if (!ReadActivity(activity) || !ReadKernelDetail(detail)) return false;
  capture::RankData* const entry = Entry();
  if (entry == nullptr) return false;
  // Before CUDA 10, the name ends in the correlation.
  uint32_t correlation = 0;
  if (SplitNumber(name, "[]", name, correlation) && !table_.Has(Column::kCorrelation))
    activity.correlation = CorrelationId(correlation);
  activity.name = strings_.Intern(name);
  activity.detail = static_cast<uint32_t>(entry->kernel_details.size());
  entry->kernel_details.push_back(detail);
  entry->activities.push_back(activity);
  return true;
}

bool NvprofRows::AddCall(std::string_view name) {
  Times times;
  uint32_t correlation = 0;
  if (!ReadTimes(times) || !table_.Integer(Column::kCorrelation, correlation)) return false;
  capture::ApiCall call{.start = times.start, .end = times.end};
  call.correlation = CorrelationId(correlation);
  call.driver = !name.starts_with("cuda");
  call.name = strings_.Intern(name);
  calls_.push_back(call);
  has_calls_ = true;
  return true;
}

std::vector<capture::RankData> NvprofRows::Take() {
  std::vector<capture::RankData> entries = std::move(entries_);
  if (entries.empty()) return entries;
  AssignApiCallsToDevices(std::move(calls_), entries);
  HostInterval window{HostTime(INT64_MAX), HostTime(INT64_MIN)};
  const auto widen = [&window](const auto& rows) {
    for (const auto& row : rows) {
      window.start = std::min(window.start, row.start);
      window.end = std::max(window.end, row.end);
    }
  };
  for (const capture::RankData& entry : entries) {
    widen(entry.activities);
    widen(entry.api_calls);
  }
  for (capture::RankData& entry : entries) entry.window = window;
  return entries;
}

}  // namespace lockstep::formats
