#include "capture/store/records_objects.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "wire/columns/schema.h"

namespace lockstep::capture {
namespace {

// Converts a number from outside to a narrower type; 0 if it is out of range.
template <typename Number>
Number InRangeOrZero(uint64_t value) {
  return std::in_range<Number>(value) ? static_cast<Number>(value) : Number{0};
}

template <typename Enum>
Enum KnownOr(uint64_t value, Enum last, Enum otherwise) {
  return value <= static_cast<uint64_t>(last) ? static_cast<Enum>(value) : otherwise;
}

}  // namespace

std::string UuidText(std::string_view prefix, uint64_t first, uint64_t last) {
  if (first == 0 && last == 0) return "";
  return absl::StrFormat("%s%08x-%04x-%04x-%04x-%012x", prefix, first >> 32, first >> 16 & 0xFFFF,
                         first & 0xFFFF, last >> 48, last & 0xFFFF'FFFF'FFFF);
}

void ProcessObjects::AddDevice(const BlockRows& rows, uint32_t row, std::string_view name) {
  namespace c = columns::device;
  constexpr uint64_t kHidden = 1, kMig = 2, kEcc = 4;
  const uint64_t flags = rows.U64(c::kFlags, row);
  if ((flags & kHidden) != 0) return;  // a device that the process uses may have the same number
  DeviceProperties p;
  p.name = name;
  const bool part = (flags & kMig) != 0;
  if (part) p.uuid = UuidText("MIG-", rows.U64(c::kMigUuidFirst, row), rows.U64(c::kMigUuidLast, row));
  if (p.uuid.empty()) p.uuid = UuidText("GPU-", rows.U64(c::kUuidFirst, row), rows.U64(c::kUuidLast, row));
  p.sms = InRangeOrZero<int32_t>(rows.U64(c::kMultiprocessors, row));
  p.compute_major = InRangeOrZero<int32_t>(rows.U64(c::kComputeMajor, row));
  p.compute_minor = InRangeOrZero<int32_t>(rows.U64(c::kComputeMinor, row));
  p.max_threads_per_sm = InRangeOrZero<int32_t>(uint64_t{rows.U32(c::kWarpsPerMultiprocessor, row)} *
                                                rows.U32(c::kThreadsPerWarp, row));
  p.registers_per_sm = InRangeOrZero<int32_t>(rows.U64(c::kRegistersPerMultiprocessor, row));
  p.shared_bytes_per_sm = rows.U64(c::kSharedPerMultiprocessor, row);
  p.memory_bytes = rows.U64(c::kMemoryBytes, row);
  p.memory_bytes_per_s = rows.U64(c::kMemoryBytesPerS, row);
  p.l2_bytes = rows.U64(c::kL2Bytes, row);
  p.clock_khz = InRangeOrZero<uint32_t>(rows.U64(c::kClockKhz, row));
  p.numa_node = InRangeOrZero<int32_t>(rows.U64(c::kNumaNode, row)) - 1;
  p.ecc = (flags & kEcc) != 0;
  devices_[rows.U32(c::kDevice, row)] = std::move(p);
}

void ProcessObjects::AddContexts(const BlockRows& rows) {
  namespace c = columns::context;
  constexpr uint64_t kGreen = 1, kMps = 2;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    DeviceContext context;
    context.context = ContextId(rows.U32(c::kContext, i));
    context.device = DeviceId(rows.U32(c::kDevice, i));
    context.null_stream = StreamId(rows.U32(c::kNullStream, i));
    context.parent = ContextId(rows.U32(c::kParent, i));
    context.multiprocessors = rows.U32(c::kMultiprocessors, i);
    context.green = (rows.U64(c::kFlags, i) & kGreen) != 0;
    context.mps = rows.U64(c::kApi, i) == kMps;
    contexts_[context.context.value()] = context;
  }
}

void ProcessObjects::AddStreams(const BlockRows& rows) {
  namespace c = columns::stream;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    DeviceStream stream;
    stream.context = ContextId(rows.U32(c::kContext, i));
    stream.stream = StreamId(rows.U32(c::kStream, i));
    stream.priority = rows.I32(c::kPriority, i);
    stream.type = KnownOr(rows.U64(c::kType, i), StreamType::kDefault, StreamType::kUnknown);
    streams_[{stream.context.value(), stream.stream.value()}] = stream;
  }
}

void ProcessObjects::AddMemoryOp(const BlockRows& rows, uint32_t row) {
  namespace c = columns::memory_op;
  MemoryOp op;
  op.time = rows.Time(c::kTime, row);
  op.correlation = CorrelationId(rows.U32(c::kCorrelation, row));
#define KEPT(type, member, column, text, index, encoding, zero, unit, meaning) \
  op.member = static_cast<type>(rows.U64(index, row));
#include "wire/fields/memory_op.def"
  op.context = ContextId(rows.U32(c::kContext, row));
  op.stream = StreamId(rows.U64(c::kIsAsync, row) != 0 ? rows.U32(c::kStream, row) : kNone);
  op.pool = KnownOr(rows.U64(c::kPoolType, row), MemoryPoolType::kImported, MemoryPoolType::kNone);
  op.pool_address = rows.U64(c::kPoolAddress, row);
  op.pool_bytes = rows.U64(c::kPoolBytes, row);
  op.pool_used_bytes = rows.U64(c::kPoolUsed, row);
  op.release = rows.U64(c::kIsRelease, row) != 0;
  memory_ops_.push_back(op);
  memory_devices_.push_back(rows.U32(c::kDevice, row));
}

template <typename Belongs>
void ProcessObjects::Give(Belongs belongs, RankData& entry) const {
  for (const auto& [id, context] : contexts_) {
    if (belongs(context.device.value())) entry.contexts.push_back(context);
  }
  for (const auto& [id, stream] : streams_) {
    const auto context = contexts_.find(stream.context.value());
    // If a context's record was lost, the device of its streams is unknown, so no entry gets them.
    if (context != contexts_.end() && belongs(context->second.device.value()))
      entry.streams.push_back(stream);
  }
  for (size_t i = 0; i < memory_ops_.size(); ++i) {
    if (belongs(memory_devices_[i])) entry.memory_ops.push_back(memory_ops_[i]);
  }
}

std::optional<DeviceId> ProcessObjects::OnlyDevice() const {
  std::optional<DeviceId> only;
  for (const auto& [id, context] : contexts_) {
    if (only && *only != context.device) return std::nullopt;
    only = context.device;
  }
  return only;
}

void ProcessObjects::Describe(RankData& entry) const {
  const uint32_t device = entry.device.value();
  if (const auto known = devices_.find(device); known != devices_.end()) {
    entry.properties = known->second;
    entry.has_properties = true;
  }
  Give([device](uint32_t d) { return d == device; }, entry);
}

void ProcessObjects::DescribeRest(const std::vector<uint32_t>& with_entries, RankData& entry) const {
  Give([&with_entries](
           uint32_t d) { return !std::binary_search(with_entries.begin(), with_entries.end(), d); },
       entry);
}

}  // namespace lockstep::capture
