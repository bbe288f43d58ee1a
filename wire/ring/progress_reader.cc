#include "wire/ring/progress_reader.h"

#include <algorithm>

namespace lockstep::ring {
namespace {

constexpr int kTries = 8;

template <size_t words>
std::string TextOf(const ProgressText<words>& text) {
  char bytes[words * 8];
  for (size_t i = 0; i < words; ++i) {
    const uint64_t value = text.word[i].load(std::memory_order_relaxed);
    std::memcpy(bytes + 8 * i, &value, 8);
  }
  return std::string(bytes, ::strnlen(bytes, sizeof bytes));
}

enum class Got : uint8_t { kOperation, kNone, kBeingWritten };

Got ReadOperation(const ProgressOperation& from, OperationProgress* to) {
  to->position = from.position.load(std::memory_order_acquire);
  const auto load = [](const auto& field) { return field.load(std::memory_order_relaxed); };
  to->number = load(from.number);
  to->count = load(from.count);
  to->entered = HostTime(load(from.entered_ns));
  to->launched = HostTime(load(from.launched_ns));
  to->started = HostTime(load(from.started_ns));
  to->completed = HostTime(load(from.completed_ns));
  to->function = TextOf(from.function);
  to->datatype = TextOf(from.datatype);
  to->peer = load(from.peer);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (from.position.load(std::memory_order_relaxed) != to->position) return Got::kBeingWritten;
  if (to->position != 0) return Got::kOperation;
  return to->entered == HostTime() ? Got::kNone : Got::kBeingWritten;
}

CommunicatorProgress ReadSlot(const ProgressSlot& slot) {
  CommunicatorProgress read;
  const uint32_t stages = slot.stages.load(std::memory_order_relaxed);
  read.communicator = slot.communicator.load(std::memory_order_relaxed);
  read.name = TextOf(slot.name);
  read.rank = slot.rank.load(std::memory_order_relaxed);
  read.ranks = slot.ranks.load(std::memory_order_relaxed);
  read.reports_launches = (stages & kStageLaunched) != 0;
  read.reports_kernels = (stages & kStageKernel) != 0;
  read.operations_entered = slot.operations_entered.load(std::memory_order_acquire);
  read.collectives_entered = slot.collectives_entered.load(std::memory_order_relaxed);
  for (const ProgressOperation& from : slot.operations) {
    OperationProgress operation;
    Got got = Got::kBeingWritten;
    for (int i = 0; i < kTries && got == Got::kBeingWritten; ++i) got = ReadOperation(from, &operation);
    if (got == Got::kOperation) read.operations.push_back(std::move(operation));
    if (got == Got::kBeingWritten) ++read.unreadable;
  }
  std::sort(read.operations.begin(), read.operations.end(),
            [](const OperationProgress& a, const OperationProgress& b) { return a.position < b.position; });
  return read;
}

struct RawEntry {
  uint64_t position = 0;
  LogKind kind = LogKind::kOperation;
  LoggedOperation logged;
};

Got ReadEntry(const LogEntry& from, RawEntry* to) {
  to->position = from.position.load(std::memory_order_acquire);
  to->logged.communicator = from.communicator.load(std::memory_order_relaxed);
  to->logged.message_number = from.message_number.load(std::memory_order_relaxed);
  to->kind = static_cast<LogKind>(from.kind.load(std::memory_order_relaxed));
  const Got got = ReadOperation(from.operation, &to->logged.operation);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (from.position.load(std::memory_order_relaxed) != to->position) return Got::kBeingWritten;
  if (to->position == 0) return to->kind == LogKind() ? Got::kNone : Got::kBeingWritten;
  return to->kind == LogKind::kOperation ? got : Got::kOperation;
}

std::vector<LoggedCommunicator> LoggedCommunicators(const Segment& segment) {
  std::vector<LoggedCommunicator> all;
  for (uint32_t i = 0; i < segment.progress_slots(); ++i) {
    const ProgressSlot& slot = segment.progress()[i];
    const auto state = static_cast<ProgressState>(slot.state.load(std::memory_order_acquire));
    if (state != ProgressState::kLiving && state != ProgressState::kEnded) continue;
    all.push_back({slot.communicator.load(std::memory_order_relaxed), TextOf(slot.name),
                   slot.rank.load(std::memory_order_relaxed), slot.ranks.load(std::memory_order_relaxed)});
  }
  return all;
}

}  // namespace

std::vector<CommunicatorProgress> ReadProgress(const Segment& segment) {
  std::vector<CommunicatorProgress> read;
  for (uint32_t i = 0; i < segment.progress_slots(); ++i) {
    const ProgressSlot& slot = segment.progress()[i];
    if (slot.state.load(std::memory_order_acquire) == static_cast<uint32_t>(ProgressState::kLiving))
      read.push_back(ReadSlot(slot));
  }
  return read;
}

std::map<uint64_t, int32_t> RanksByCommunicator(const Segment& segment) {
  std::map<uint64_t, int32_t> ranks;
  for (uint32_t i = 0; i < segment.progress_slots(); ++i) {
    const ProgressSlot& slot = segment.progress()[i];
    const auto state = static_cast<ProgressState>(slot.state.load(std::memory_order_acquire));
    if (state != ProgressState::kLiving && state != ProgressState::kEnded) continue;
    ranks[slot.communicator.load(std::memory_order_relaxed)] = slot.ranks.load(std::memory_order_relaxed);
  }
  return ranks;
}

OperationLog ReadLog(const Segment& segment, HostTime since) {
  OperationLog log;
  log.communicators = LoggedCommunicators(segment);
  std::vector<RawEntry> entries;
  RawEntry oldest{.position = ~uint64_t{0}};
  for (uint32_t i = 0; i < kLogEntries; ++i) {
    RawEntry entry;
    Got got = Got::kBeingWritten;
    for (int n = 0; n < kTries && got == Got::kBeingWritten; ++n) got = ReadEntry(segment.log()[i], &entry);
    if (got == Got::kBeingWritten) ++log.unreadable;
    if (got != Got::kOperation) continue;
    if (entry.position < oldest.position) oldest = entry;
    const OperationProgress& operation = entry.logged.operation;
    const bool ended = operation.completed != HostTime() || entry.kind != LogKind::kOperation;
    if (ended && std::max(operation.entered, operation.completed) < since) continue;
    entries.push_back(std::move(entry));
  }
  if (oldest.position > 1 && oldest.position != ~uint64_t{0})
    log.complete_since = oldest.logged.operation.entered;
  std::sort(entries.begin(), entries.end(),
            [](const RawEntry& a, const RawEntry& b) { return a.position < b.position; });
  for (RawEntry& entry : entries) {
    const OperationProgress& operation = entry.logged.operation;
    if (entry.kind == LogKind::kOperation) {
      log.operations.push_back(std::move(entry.logged));
    } else if (entry.kind == LogKind::kNamedStep || entry.kind == LogKind::kMarkedStep) {
      log.steps.push_back({operation.number, operation.entered, entry.kind == LogKind::kMarkedStep});
    }
  }
  return log;
}

}  // namespace lockstep::ring
