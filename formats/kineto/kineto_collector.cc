#include "formats/kineto/kineto_collector.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "formats/common/decimal_time.h"
#include "formats/common/kineto_names.h"

namespace lockstep::formats {
namespace {

using capture::ActivityKind;

double NumberOr(std::string_view token, double otherwise) {
  const std::string_view bare = Unquoted(token);
  double value = 0;
  const auto [end, error] = std::from_chars(bare.data(), bare.data() + bare.size(), value);
  const bool whole = error == std::errc() && end == bare.data() + bare.size();
  return whole && value >= 0 && value < 1e30 ? value : otherwise;
}

// Accepts "stream 15" and "15".
std::optional<uint32_t> TrailingNumber(std::string_view token) {
  const std::string_view bare = Unquoted(token);
  size_t at = bare.size();
  while (at > 0 && bare[at - 1] >= '0' && bare[at - 1] <= '9') --at;
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(bare.data() + at, bare.data() + bare.size(), value);
  if (at == bare.size() || error != std::errc()) return std::nullopt;
  return value;
}

uint8_t MemoryKind(std::string_view word) {
  constexpr std::array<std::string_view, 8> kKinds = {
      "Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"};
  const auto* at = std::find(kKinds.begin(), kKinds.end(), word);
  return at == kKinds.end() ? 0 : static_cast<uint8_t>(at - kKinds.begin());
}

// Reads the kind of a copy, as CUPTI's number, from a name like "Memcpy HtoD (Pinned -> Device)".
capture::CopyDetail CopyFromName(std::string_view name) {
  constexpr std::array<std::string_view, 11> kCopies = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                                        "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  capture::CopyDetail copy;
  if (!name.starts_with("Memcpy ")) return copy;
  const auto* at = std::find(kCopies.begin() + 1, kCopies.end(), name.substr(7, 4));
  if (at != kCopies.end()) copy.copy_kind = static_cast<uint8_t>(at - kCopies.begin());
  const size_t open = name.find('(');
  const size_t arrow = name.find(" -> ");
  const size_t close = name.find(')');
  if (open < arrow && arrow != std::string_view::npos && close != std::string_view::npos && arrow < close) {
    copy.src_kind = MemoryKind(name.substr(open + 1, arrow - open - 1));
    copy.dst_kind = MemoryKind(name.substr(arrow + 4, close - arrow - 4));
  }
  return copy;
}

// An operator row that is a step, a collective or the data loader is kept as a range.
bool NamesRange(std::string_view text) {
  return NamesDataLoader(text) || text.starts_with("ProfilerStep#") || text.starts_with("nccl:");
}

// Gives lists that differ only in blanks one spelling: "[[8, 384], []]". Blanks inside quotes stay.
std::string OneSpelling(std::string_view list) {
  std::string text;
  bool quoted = false;
  for (size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (c == '"' && (i == 0 || list[i - 1] != '\\')) quoted = !quoted;
    if (!quoted && static_cast<unsigned char>(c) <= ' ') continue;
    text += c;
    if (!quoted && c == ',') text += ' ';
  }
  return text;
}

std::optional<int64_t> Number(std::string_view token) {
  return token.empty() ? std::nullopt : IntegerFromText(token);
}

// Addresses may need all 64 bits.
uint64_t Address(std::string_view token) {
  const std::string_view bare = Unquoted(token);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(bare.data(), bare.data() + bare.size(), value);
  return error == std::errc() && end == bare.data() + bare.size() ? value : 0;
}

}  // namespace

bool KinetoCollector::Add(const KinetoRow& row) {
  if (row.category == RowCategory::kUnknown && !row.complete) return true;
  const std::optional<int64_t> start_ns = NanosFromMicrosText(row.ts);
  if (!start_ns) return row.instant || row.category <= RowCategory::kOther;
  HostTime start(*start_ns);
  HostTime end = start;
  if (row.complete) {
    const std::optional<int64_t> duration = NanosFromMicrosText(row.dur);
    int64_t end_ns = 0;
    if (!duration || *duration < 0 || __builtin_add_overflow(*start_ns, *duration, &end_ns)) {
      return row.category <= RowCategory::kOther;
    }
    end = HostTime(end_ns);
  }
  file_.window.start = std::min(file_.window.start, start);
  file_.window.end = std::max(file_.window.end, end);
  if (row.category == RowCategory::kInstant) AddAllocation(row, start);
  if (!row.complete) return true;
  ++file_.rows;
  switch (row.category) {
    case RowCategory::kKernel:
    case RowCategory::kMemcpy:
    case RowCategory::kMemset:
      AddDeviceRow(row, start, end);
      break;
    case RowCategory::kRuntime:
    case RowCategory::kDriver:
      AddApiCall(row, start, end);
      break;
    case RowCategory::kOperator:
      AddFrame(row, capture::FrameKind::kOperator, start, end);
      AddOperator(row, start, end);
      break;
    case RowCategory::kAnnotation:
      // Our writer adds such rows for other tools. Only views that apply the rule of such a tool use them.
      if (row.args.lockstep == "\"inferred\"") {
        AddFrame(row, capture::FrameKind::kInferred, start, end);
        break;
      }
      AddFrame(row, capture::FrameKind::kAnnotation, start, end);
      AddRange(row, Intern(row.name), start, end);
      break;
    case RowCategory::kSync:
      AddSync(row, start, end);
      break;
    case RowCategory::kCounters:
      AddCounters(row);
      break;
    case RowCategory::kPython:
      AddFrame(row, capture::FrameKind::kPython, start, end);
      break;
    case RowCategory::kUnknown:
    case RowCategory::kOther:
    case RowCategory::kInstant:
      break;
  }
  return true;
}

const KinetoCollector::Name& KinetoCollector::Intern(std::string_view token) {
  auto it = names_.find(token);
  if (it != names_.end()) return it->second;
  std::string_view text = Unquoted(token);
  simdjson::padded_string padded;
  simdjson::ondemand::document document;
  if (token.find('\\') != std::string_view::npos) {
    padded = simdjson::padded_string(token);
    std::string_view unescaped;
    if (!unescaper_.iterate(padded).get(document) && !document.get_string().get(unescaped)) text = unescaped;
  }
  Name name;
  name.id = file_.strings.Intern(text);
  name.data_loader = NamesDataLoader(text);
  name.copy = CopyFromName(text);
  tokens_.emplace_back(token);
  return names_.emplace(tokens_.back(), name).first->second;
}

KinetoDevice& KinetoCollector::DeviceOf(const KinetoRow& row) {
  const std::string_view token = row.args.device.empty() ? row.pid : row.args.device;
  const DeviceId device(CountOr<uint32_t>(token, 0));
  if (last_device_ < file_.devices.size() && file_.devices[last_device_].device == device)
    return file_.devices[last_device_];
  for (last_device_ = 0; last_device_ < file_.devices.size(); ++last_device_) {
    if (file_.devices[last_device_].device == device) return file_.devices[last_device_];
  }
  file_.devices.emplace_back();
  file_.devices.back().device = device;
  return file_.devices.back();
}

void KinetoCollector::AddDeviceRow(const KinetoRow& row, HostTime start, HostTime end) {
  KinetoDevice& device = DeviceOf(row);
  const Name& name = Intern(row.name);
  capture::DeviceActivity a{.start = start, .end = end, .name = name.id};
  a.stream = StreamId(CountOr<uint32_t>(row.args.stream, TrailingNumber(row.tid).value_or(0)));
  a.correlation = CorrelationId(CountOr<uint32_t>(row.args.correlation, 0));
  if (row.category == RowCategory::kKernel) {
    a.kind = ActivityKind::kKernel;
    a.detail = AddKernelDetail(row.args, device);
    if (!row.args.collective.empty()) {
      a.communication = true;
      a.collective = static_cast<uint32_t>(device.collectives.size());
      device.collectives.push_back(collectives_.Read(row.args));
      device.collectives.back().activity = static_cast<uint32_t>(device.activities.size());
    }
  } else {
    a.kind = row.category == RowCategory::kMemcpy ? ActivityKind::kMemcpy : ActivityKind::kMemset;
    a.detail = AddCopyDetail(row.args, name.copy, device);
  }
  device.activities.push_back(a);
}

uint32_t KinetoCollector::AddKernelDetail(const RowArgs& args, KinetoDevice& device) {
  capture::KernelDetail d;
  for (int i = 0; i < 3; ++i) {
    d.grid[i] = CountOr<uint32_t>(args.grid[i], 0);
    d.block[i] = CountOr<uint16_t>(args.block[i], 0);
  }
  d.registers = CountOr<uint16_t>(args.registers, 0);
  d.static_shared_bytes = CountOr<uint32_t>(args.shared_memory, 0);
  d.context = ContextId(CountOr<uint32_t>(args.context, 0));
  d.graph = CountOr<uint32_t>(args.graph, 0);
  d.graph_node = CountOr<uint64_t>(args.graph_node, 0);
  d.blocks_per_sm = static_cast<float>(NumberOr(args.blocks_per_sm, -1));
  d.warps_per_sm = static_cast<float>(NumberOr(args.warps_per_sm, -1));
  d.occupancy_percent = static_cast<float>(NumberOr(args.occupancy, -1));
  device.kernel_details.push_back(d);
  return static_cast<uint32_t>(device.kernel_details.size() - 1);
}

uint32_t KinetoCollector::AddCopyDetail(const RowArgs& args, const capture::CopyDetail& from_name,
                                        KinetoDevice& device) {
  capture::CopyDetail d = from_name;
  d.bytes = CountOr<uint64_t>(args.bytes, 0);
  d.bandwidth_gb_per_s = NumberOr(args.bandwidth, 0);
  d.context = ContextId(CountOr<uint32_t>(args.context, 0));
  d.graph = CountOr<uint32_t>(args.graph, 0);
  d.graph_node = CountOr<uint64_t>(args.graph_node, 0);
  device.copy_details.push_back(d);
  return static_cast<uint32_t>(device.copy_details.size() - 1);
}

void KinetoCollector::AddApiCall(const KinetoRow& row, HostTime start, HostTime end) {
  SeeProcess(row.pid);
  file_.api_calls.push_back({.start = start,
                             .end = end,
                             .name = Intern(row.name).id,
                             .correlation = CorrelationId(CountOr<uint32_t>(row.args.correlation, 0)),
                             .thread = ThreadOf(row.tid),
                             .cbid = CountOr<uint32_t>(row.args.cbid, 0),
                             .driver = row.category == RowCategory::kDriver});
}

void KinetoCollector::AddCounters(const KinetoRow& row) {
  ++file_.counters.ranges;
  const simdjson::padded_string text(row.args.counters);
  simdjson::ondemand::document document;
  simdjson::ondemand::object metrics;
  if (unescaper_.iterate(text).get(document) || document.get_object().get(metrics)) return;
  for (auto field : metrics) {
    std::string_view key;
    if (field.unescaped_key().get(key)) return;
    // CUPTI's names are "<unit>__<counter>.<sum>". The profiler adds arguments of its own.
    const bool metric = key.find("__") != std::string_view::npos;
    if (metric && file_.counters.metrics.size() < KinetoCounters::kMostMetrics)
      file_.counters.metrics.emplace(key);
  }
}

void KinetoCollector::AddSync(const KinetoRow& row, HostTime start, HostTime end) {
  const std::string_view kind = Unquoted(row.name);
  capture::Sync sync{.start = start, .end = end};
  sync.correlation = CorrelationId(CountOr<uint32_t>(row.args.correlation, 0));
  sync.stream = StreamId(CountOr<uint32_t>(row.args.stream, capture::kNone));
  sync.event = CountOr<uint32_t>(row.args.wait_on_event, capture::kNone);
  if (kind == "Event Sync") sync.type = capture::SyncType::kEvent;
  if (kind == "Stream Wait Event") sync.type = capture::SyncType::kStreamWaitEvent;
  if (kind == "Stream Sync") sync.type = capture::SyncType::kStream;
  if (kind == "Context Sync") sync.type = capture::SyncType::kContext;
  const std::string_view device = row.args.device.empty() ? row.pid : row.args.device;
  capture::EventRecord record{.correlation = CorrelationId(CountOr<uint32_t>(row.args.event_recorded_by, 0)),
                              .stream = StreamId(CountOr<uint32_t>(row.args.wait_on_stream, capture::kNone))};
  if (record.correlation != CorrelationId() && record.stream.value() != capture::kNone)
    record.event = sync.event;
  file_.syncs.push_back({DeviceId(CountOr<uint32_t>(device, 0)), sync, record});
}

void KinetoCollector::AddOperator(const KinetoRow& row, HostTime start, HostTime end) {
  if (row.name == kAnnouncesCollective && !row.args.collective.empty())
    file_.announced.push_back({start, ThreadOf(row.tid), collectives_.Read(row.args)});
  // Names of other operators are not kept, because compiled graphs and annotated frameworks make millions of
  // them.
  if (NamesRange(Unquoted(row.name))) {
    AddRange(row, Intern(row.name), start, end);
  } else {
    file_.operators.Add(start, end);
  }
}

void KinetoCollector::AddRange(const KinetoRow& row, const Name& name, HostTime start, HostTime end) {
  SeeProcess(row.pid);
  if (name.data_loader) file_.data_loader.Add(start, end);
  const std::string_view open = Unquoted(row.args.lockstep);
  file_.ranges.push_back({.start = start,
                          .end = end,
                          .name = name.id,
                          .domain = kNoName,
                          .thread = ThreadOf(row.tid),
                          .start_unknown = open == kOpenBegin || open == kOpenBoth,
                          .end_unknown = open == kOpenEnd || open == kOpenBoth});
}

NameId KinetoCollector::InternArgument(std::string_view token) {
  if (token.empty() || token == "\"\"" || token == "null") return kNoName;
  if (token.front() != '[') return Intern(token).id;
  const auto it = arguments_.find(token);
  if (it != arguments_.end()) return it->second;
  tokens_.emplace_back(token);
  return arguments_.emplace(tokens_.back(), file_.strings.Intern(OneSpelling(token))).first->second;
}

void KinetoCollector::AddFrame(const KinetoRow& row, capture::FrameKind kind, HostTime start, HostTime end) {
  if (host_ == HostDetail::kUnions) return;
  SeeProcess(row.pid);
  const Name& name = Intern(row.name);
  const std::string_view text = file_.strings.Text(name.id);
  if (text.starts_with("nn.Module: ")) kind = capture::FrameKind::kModule;
  if (text.starts_with("ProfilerStep#")) kind = capture::FrameKind::kAnnotation;
  capture::HostFrame frame{
      .start = start, .end = end, .name = name.id, .thread = ThreadOf(row.tid), .kind = kind};
  const RowArgs& args = row.args;
  const capture::FrameDetail detail{.shapes = InternArgument(args.shapes),
                                    .types = InternArgument(args.types),
                                    .values = InternArgument(args.values),
                                    .stack = InternArgument(args.stack),
                                    .modules = InternArgument(args.modules),
                                    .sequence = Number(args.forward_sequence).value_or(-1),
                                    .forward_thread = ThreadId(Number(args.forward_thread).value_or(0)),
                                    .python_id = Number(args.python_id).value_or(-1),
                                    .python_parent = Number(args.python_parent).value_or(-1)};
  if (detail != capture::FrameDetail{}) {
    frame.detail = static_cast<uint32_t>(file_.frames.details.size());
    file_.frames.details.push_back(detail);
  }
  file_.frames.frames.push_back(frame);
}

void KinetoCollector::AddAllocation(const KinetoRow& row, HostTime time) {
  const std::optional<int64_t> bytes = Number(row.args.memory_bytes);
  if (row.name != "\"[memory]\"" || !bytes) return;
  const bool on_host = Number(row.args.memory_device_type) == 0;
  const std::optional<int64_t> device = Number(row.args.memory_device);
  file_.frames.allocations.push_back(
      {.time = time,
       .thread = ThreadOf(row.tid),
       .bytes = *bytes,
       .address = Address(row.args.memory_address),
       .device = on_host || !device || !std::in_range<int32_t>(*device) ? -1 : static_cast<int32_t>(*device),
       .allocated = Number(row.args.allocated),
       .reserved = Number(row.args.reserved)});
}

ThreadId KinetoCollector::ThreadOf(std::string_view token) {
  if (const auto number = IntegerFromText(token)) return ThreadId(*number);
  // Named threads get ids from -1 downwards, so that they differ from numbered threads.
  const auto next = static_cast<int64_t>(named_threads_.size());
  return named_threads_.try_emplace(std::string(token), ThreadId(-1 - next)).first->second;
}

void KinetoCollector::SeeProcess(std::string_view token) {
  if (file_.pid == 0) file_.pid = CountOr<int32_t>(token, 0);
}

}  // namespace lockstep::formats
