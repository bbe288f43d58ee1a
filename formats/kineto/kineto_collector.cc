#include "formats/kineto/kineto_collector.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "formats/common/decimal_time.h"
#include "formats/common/kineto_names.h"

namespace lockstep::trace {
namespace {

using store::ActivityKind;
using store::CollectiveOp;

template <typename T>
T CountOr(std::string_view token, T otherwise) {
  if (token.empty()) return otherwise;
  const std::optional<int64_t> value = IntegerFromText(token);
  if (!value || !std::in_range<T>(*value)) return otherwise;
  return static_cast<T>(*value);
}

float NumberOr(std::string_view token, float otherwise) {
  const std::string_view bare = Unquoted(token);
  double value = 0;
  const auto [end, error] = std::from_chars(bare.data(), bare.data() + bare.size(), value);
  const bool whole = error == std::errc() && end == bare.data() + bare.size();
  return whole && value >= 0 && value < 1e30 ? static_cast<float>(value) : otherwise;
}

// "stream 15" and "15" both.
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

// "Memcpy HtoD (Pinned -> Device)", with CUPTI's numbers.
store::CopyDetail CopyFromName(std::string_view name) {
  constexpr std::array<std::string_view, 11> kCopies = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                                        "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  store::CopyDetail copy;
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

// "[0, 1, 3]"; nullopt when elided or anything else.
std::optional<std::vector<int64_t>> NumberList(std::string_view text) {
  std::vector<int64_t> numbers;
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  const char* at = text.data() + 1;
  const char* const end = text.data() + text.size() - 1;
  while (at != end) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc()) return std::nullopt;
    numbers.push_back(value);
    at = next;
  }
  return numbers;
}

// An operator row that is a step, a collective or the data loader: kept as a range.
bool NamesRange(std::string_view text) {
  return NamesDataLoader(text) || text.starts_with("ProfilerStep#") || text.starts_with("nccl:");
}

bool AllEqual(const std::optional<std::vector<int64_t>>& list) {
  return !list || std::adjacent_find(list->begin(), list->end(), std::not_equal_to<>()) == list->end();
}

// Elements that NCCL's `count` means: what one rank puts in, or gets of a reduce-scatter.
int64_t CountedElements(CollectiveOp op, const RowArgs& args) {
  const bool out =
      op == CollectiveOp::kReduceScatter || op == CollectiveOp::kReceive || op == CollectiveOp::kScatter;
  return CountOr<int64_t>(out ? args.out_elements : args.in_elements, -1);
}

void SetPeers(const RowArgs& args, store::Collective& c) {
  const int32_t source = CountOr<int32_t>(args.source_rank, -1);
  const int32_t destination = CountOr<int32_t>(args.destination_rank, -1);
  switch (c.op) {
    case CollectiveOp::kSend:
      c.peer = destination;
      break;
    case CollectiveOp::kReceive:
      c.peer = source;
      break;
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kScatter:
      c.root = source;
      break;
    case CollectiveOp::kReduce:
    case CollectiveOp::kGather:
      c.root = destination >= 0 ? destination : source;
      break;
    default:
      break;
  }
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
      AddFrame(row, store::FrameKind::kOperator, start, end);
      AddOperator(row, start, end);
      break;
    case RowCategory::kAnnotation:
      // Rows that our writer adds for other tools say nothing new.
      if (row.args.lockstep == "\"inferred\"") break;
      AddFrame(row, store::FrameKind::kAnnotation, start, end);
      AddRange(row, Intern(row.name), start, end);
      break;
    case RowCategory::kSync:
      AddSync(row, start, end);
      break;
    case RowCategory::kPython:
      AddFrame(row, store::FrameKind::kPython, start, end);
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
  store::DeviceActivity a{.start = start, .end = end, .name = name.id};
  a.stream = StreamId(CountOr<uint32_t>(row.args.stream, TrailingNumber(row.tid).value_or(0)));
  a.correlation = CorrelationId(CountOr<uint32_t>(row.args.correlation, 0));
  if (row.category == RowCategory::kKernel) {
    a.kind = ActivityKind::kKernel;
    a.detail = AddKernelDetail(row.args, device);
    if (!row.args.collective.empty()) {
      a.communication = true;
      a.collective = AddCollective(row.args, device);
      device.collectives[a.collective].activity = static_cast<uint32_t>(device.activities.size());
    }
  } else {
    a.kind = row.category == RowCategory::kMemcpy ? ActivityKind::kMemcpy : ActivityKind::kMemset;
    a.detail = AddCopyDetail(row.args, name.copy, device);
  }
  device.activities.push_back(a);
}

uint32_t KinetoCollector::AddKernelDetail(const RowArgs& args, KinetoDevice& device) {
  store::KernelDetail d;
  for (int i = 0; i < 3; ++i) {
    d.grid[i] = CountOr<uint32_t>(args.grid[i], 0);
    d.block[i] = CountOr<uint16_t>(args.block[i], 0);
  }
  d.registers = CountOr<uint16_t>(args.registers, 0);
  d.static_shared_bytes = CountOr<uint32_t>(args.shared_memory, 0);
  d.context = ContextId(CountOr<uint32_t>(args.context, 0));
  d.graph = CountOr<uint32_t>(args.graph, 0);
  d.graph_node = CountOr<uint64_t>(args.graph_node, 0);
  d.blocks_per_sm = NumberOr(args.blocks_per_sm, -1);
  d.warps_per_sm = NumberOr(args.warps_per_sm, -1);
  d.occupancy_percent = NumberOr(args.occupancy, -1);
  device.kernel_details.push_back(d);
  return static_cast<uint32_t>(device.kernel_details.size() - 1);
}

uint32_t KinetoCollector::AddCopyDetail(const RowArgs& args, const store::CopyDetail& from_name,
                                        KinetoDevice& device) {
  store::CopyDetail d = from_name;
  d.bytes = CountOr<uint64_t>(args.bytes, 0);
  d.context = ContextId(CountOr<uint32_t>(args.context, 0));
  d.graph = CountOr<uint32_t>(args.graph, 0);
  d.graph_node = CountOr<uint64_t>(args.graph_node, 0);
  device.copy_details.push_back(d);
  return static_cast<uint32_t>(device.copy_details.size() - 1);
}

uint32_t KinetoCollector::AddCollective(const RowArgs& args, KinetoDevice& device) {
  store::Collective c;
  c.op = store::CollectiveOpFromText(Unquoted(args.collective));
  // Only where somebody sends more to one peer than to another do durations stop being comparable.
  if (c.op == CollectiveOp::kAllToAllV || c.op == CollectiveOp::kAllToAll) {
    const bool equal =
        AllEqual(NumberList(Unquoted(args.in_split))) && AllEqual(NumberList(Unquoted(args.out_split)));
    if (!equal) c.op = CollectiveOp::kAllToAllV;
  }
  c.group = GroupOf(args);
  c.sequence = CountOr<int64_t>(args.sequence, -1);
  if (c.sequence >= 0) c.source = store::MatchSource::kGroupSequence;
  if (!args.nccl_sequence.empty()) {
    c.sequence = CountOr<int64_t>(args.nccl_sequence, -1);
    if (c.sequence >= 0) c.source = store::MatchSource::kNcclSequence;
  }
  const std::string_view dtype = Unquoted(args.dtype);
  c.datatype = file_.strings.Intern(dtype);
  const int64_t elements = CountedElements(c.op, args);
  const int size = store::ElementBytes(dtype);
  if (elements < 0 || size == 0 || __builtin_mul_overflow(elements, int64_t{size}, &c.bytes)) c.bytes = -1;
  SetPeers(args, c);
  device.collectives.push_back(c);
  return static_cast<uint32_t>(device.collectives.size() - 1);
}

uint32_t KinetoCollector::GroupOf(const RowArgs& args) {
  if (args.group_name.empty() && args.group_ranks.empty()) return store::kNone;
  // Disjoint sets of ranks may share a name: the members are part of the identity.
  std::string key =
      absl::StrCat(std::string(Unquoted(args.group_name)), " ", std::string(Unquoted(args.group_ranks)));
  auto [it, fresh] = groups_.try_emplace(key, static_cast<uint32_t>(file_.groups.size()));
  if (!fresh) return it->second;
  store::Group group{.key = std::move(key)};
  const std::string_view description = Unquoted(args.group_description);
  group.name = description.empty() || description == "undefined" ? Unquoted(args.group_name) : description;
  group.size = std::max(CountOr<int32_t>(args.group_size, 0), 0);
  if (const auto ranks = NumberList(Unquoted(args.group_ranks))) {
    for (int64_t rank : *ranks) {
      if (std::in_range<int32_t>(rank) && rank >= 0)
        group.members.push_back(RankId(static_cast<int32_t>(rank)));
    }
    // "[0, 1]" with a group size of 64 is a list that somebody shortened.
    if (group.size != 0 && group.members.size() != static_cast<size_t>(group.size)) group.members.clear();
  }
  file_.groups.push_back(std::move(group));
  return it->second;
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

void KinetoCollector::AddSync(const KinetoRow& row, HostTime start, HostTime end) {
  const std::string_view kind = Unquoted(row.name);
  store::Sync sync{.start = start, .end = end};
  sync.correlation = CorrelationId(CountOr<uint32_t>(row.args.correlation, 0));
  sync.stream = StreamId(CountOr<uint32_t>(row.args.stream, store::kNone));
  sync.event = CountOr<uint32_t>(row.args.wait_on_event, store::kNone);
  if (kind == "Event Sync") sync.type = store::SyncType::kEvent;
  if (kind == "Stream Wait Event") sync.type = store::SyncType::kStreamWaitEvent;
  if (kind == "Stream Sync") sync.type = store::SyncType::kStream;
  if (kind == "Context Sync") sync.type = store::SyncType::kContext;
  const std::string_view device = row.args.device.empty() ? row.pid : row.args.device;
  store::EventRecord record{.correlation = CorrelationId(CountOr<uint32_t>(row.args.event_recorded_by, 0)),
                            .stream = StreamId(CountOr<uint32_t>(row.args.wait_on_stream, store::kNone))};
  if (record.correlation != CorrelationId() && record.stream.value() != store::kNone)
    record.event = sync.event;
  file_.syncs.push_back({DeviceId(CountOr<uint32_t>(device, 0)), sync, record});
}

void KinetoCollector::AddOperator(const KinetoRow& row, HostTime start, HostTime end) {
  // Names of other operators are not kept: compiled graphs and annotated frameworks make millions of them.
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

ThreadId KinetoCollector::ThreadOf(std::string_view token) {
  if (const auto number = IntegerFromText(token)) return ThreadId(*number);
  // Names count down from -1, out of the way of numbers.
  const auto next = static_cast<int64_t>(named_threads_.size());
  return named_threads_.try_emplace(std::string(token), ThreadId(-1 - next)).first->second;
}

void KinetoCollector::SeeProcess(std::string_view token) {
  if (file_.pid == 0) file_.pid = CountOr<int32_t>(token, 0);
}

}  // namespace lockstep::trace
