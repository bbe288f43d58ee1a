#include "client/nccl/nccl_progress.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstring>

#include "client/nccl/copy_field.h"
#include "wire/ring/record.h"

namespace lockstep::client {
namespace {

using ring::ProgressOperation;
using ring::ProgressSlot;
using ring::ProgressState;

constexpr auto kRelaxed = std::memory_order_relaxed;

ProgressOperation& At(ProgressSlot& slot, uint64_t position) {
  return slot.operations[position & (ring::kProgressOperations - 1)];
}

template <size_t words>
bool HasText(const ring::ProgressText<words>& text, const char* wanted) {
  ring::ProgressText<words> other{};
  other.Set(wanted);
  for (size_t i = 0; i < words; ++i) {
    if (text.word[i].load(kRelaxed) != other.word[i].load(kRelaxed)) return false;
  }
  return true;
}

// The writer of `from` may run at the same time. The position is read before and after the fields.
void CopyOperation(const ProgressOperation& from, ProgressOperation& to) {
  constexpr int kTries = 4;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t position = from.position.load(std::memory_order_acquire);
    to.position.store(0, kRelaxed);
    std::atomic_thread_fence(std::memory_order_release);
    CopyField(from.number, to.number);
    CopyField(from.count, to.count);
    CopyField(from.entered_ns, to.entered_ns);
    CopyField(from.launched_ns, to.launched_ns);
    CopyField(from.started_ns, to.started_ns);
    CopyField(from.completed_ns, to.completed_ns);
    to.function.CopyFrom(from.function);
    to.datatype.CopyFrom(from.datatype);
    CopyField(from.peer, to.peer);
    CopyField(from.channels, to.channels);
    to.position.store(position, std::memory_order_release);
    if (from.position.load(std::memory_order_acquire) == position) return;
  }
}

void CopySlot(const ProgressSlot& from, ProgressSlot& to) {
  CopyField(from.stages, to.stages);
  CopyField(from.communicator, to.communicator);
  CopyField(from.rank, to.rank);
  CopyField(from.ranks, to.ranks);
  to.name.CopyFrom(from.name);
  for (uint32_t i = 0; i < ring::kProgressOperations; ++i)
    CopyOperation(from.operations[i], to.operations[i]);
  CopyField(from.collectives_entered, to.collectives_entered);
  CopyField(from.operations_entered, to.operations_entered);
  to.state.store(from.state.load(std::memory_order_acquire), std::memory_order_release);
}

}  // namespace

void NcclProgress::TurnOn(const Timing& timing) {
  constexpr size_t kBytes = ring::kProgressBytes + ring::kProgressSlots * sizeof(LogPositions);
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  own_ = static_cast<ProgressSlot*>(memory);
  logged_ = reinterpret_cast<LogPositions*>(static_cast<std::byte*>(memory) + ring::kProgressBytes);
  timing_ = &timing;
  flags_.progress.store(1, std::memory_order_release);
}

template <typename Write>
void NcclProgress::InBoth(uint32_t slot, Write write) {
  write(own_[slot]);
  if (ProgressSlot* shared = shared_.load(std::memory_order_acquire)) write(shared[slot]);
}

template <typename Write>
void NcclProgress::Change(uint32_t slot, uint64_t position, Write write) {
  if (At(own_[slot], position).position.load(kRelaxed) != position) return;
  InBoth(slot, [&](ProgressSlot& at) {
    ProgressOperation& operation = At(at, position);
    if (operation.position.load(kRelaxed) == position) write(operation);
  });
  log_.Update(logged_[slot][position & (ring::kProgressOperations - 1)].load(kRelaxed),
              [&](ring::LogEntry& entry) { write(entry.operation); });
}

void NcclProgress::Attach(ring::ProgressSlot* table, uint32_t slots) {
  if (own_ == nullptr) return;
  if (slots < ring::kProgressSlots) table = nullptr;
  // Writers reach the table first, so that no change after the copy is missing in it.
  shared_.store(table, std::memory_order_release);
  for (uint32_t i = 0; table != nullptr && i < ring::kProgressSlots; ++i) {
    if (own_[i].state.load(std::memory_order_acquire) != 0) CopySlot(own_[i], table[i]);
  }
}

uint32_t NcclProgress::TakeSlot() {
  // Two threads may look for a place at once. The place is taken in the private copy and published last. The
  // fields of ended communicators are kept as long as others are free.
  for (const ProgressState wanted : {ProgressState::kFree, ProgressState::kEnded}) {
    for (uint32_t i = 0; i < ring::kProgressSlots; ++i) {
      auto expected = static_cast<uint32_t>(wanted);
      if (own_[i].state.compare_exchange_strong(expected, static_cast<uint32_t>(ProgressState::kFilling)))
        return i;
    }
  }
  return kNoSlot;
}

uint32_t NcclProgress::Add(uint64_t communicator, const char* name, int32_t rank, int32_t ranks,
                           uint32_t stages) {
  const uint32_t taken = TakeSlot();
  if (taken == kNoSlot) return kNoSlot;
  not_launched_[taken].store(0, kRelaxed);
  InBoth(taken, [&](ProgressSlot& slot) {
    slot.stages.store(stages, kRelaxed);
    slot.communicator.store(communicator, kRelaxed);
    slot.rank.store(rank, kRelaxed);
    slot.ranks.store(ranks, kRelaxed);
    slot.operations_entered.store(0, kRelaxed);
    slot.collectives_entered.store(0, kRelaxed);
    slot.name.Set(name);
    for (ProgressOperation& operation : slot.operations) {
      operation.entered_ns.store(0, kRelaxed);
      operation.position.store(0, kRelaxed);
    }
    slot.state.store(static_cast<uint32_t>(ProgressState::kLiving), std::memory_order_release);
  });
  return taken;
}

void NcclProgress::Remove(uint32_t slot) {
  if (slot == kNoSlot) return;
  InBoth(slot, [](ProgressSlot& at) {
    at.state.store(static_cast<uint32_t>(ProgressState::kEnded), std::memory_order_release);
  });
}

uint64_t NcclProgress::NewOperation(uint32_t slot, const NcclEvent& event, bool is_message) {
  const uint64_t position = own_[slot].operations_entered.load(kRelaxed) + 1;
  const uint64_t collectives = own_[slot].collectives_entered.load(kRelaxed) + (is_message ? 0 : 1);
  const int64_t now = NowNs();
  const auto fill = [&](ProgressOperation& to) {
    to.position.store(0, kRelaxed);
    std::atomic_thread_fence(std::memory_order_release);
    to.number.store(is_message ? 0 : collectives, kRelaxed);
    to.count.store(event.count, kRelaxed);
    to.entered_ns.store(now, kRelaxed);
    to.launched_ns.store(0, kRelaxed);
    to.started_ns.store(0, kRelaxed);
    to.completed_ns.store(0, kRelaxed);
    to.function.Set(event.function);
    to.datatype.Set(event.datatype);
    to.peer.store(is_message ? event.peer : event.root, kRelaxed);
    to.channels.store(0, kRelaxed);
    to.position.store(position, std::memory_order_release);
  };
  InBoth(slot, [&](ProgressSlot& at) {
    fill(At(at, position));
    at.collectives_entered.store(collectives, kRelaxed);
    at.operations_entered.store(position, std::memory_order_release);
  });
  const uint64_t communicator = own_[slot].communicator.load(kRelaxed);
  const uint64_t logged = log_.Add([&](ring::LogEntry& entry) {
    entry.communicator.store(communicator, kRelaxed);
    entry.message_number.store(0, kRelaxed);
    entry.kind.store(static_cast<uint32_t>(ring::LogKind::kOperation), kRelaxed);
    fill(entry.operation);
  });
  logged_[slot][position & (ring::kProgressOperations - 1)].store(logged, kRelaxed);
  return position;
}

void NcclProgress::Enter(uint32_t slot, const NcclEvent& event) {
  if (slot == kNoSlot) return;
  NewOperation(slot, event, event.type == foreign::nccl::kEventP2pApi);
  not_launched_[slot].fetch_add(1, kRelaxed);
}

uint64_t NcclProgress::FindEntered(uint32_t slot, const NcclEvent& event) {
  // NCCL launches the operations of a group in another order. The search ends at the last that is not
  // launched.
  uint32_t left = not_launched_[slot].load(kRelaxed);
  const uint64_t last = own_[slot].operations_entered.load(kRelaxed);
  const uint64_t first = last < ring::kProgressOperations ? 1 : last - ring::kProgressOperations + 1;
  uint64_t oldest = 0;
  for (uint64_t position = last; left > 0 && position >= first; --position) {
    const ProgressOperation& operation = At(own_[slot], position);
    if (operation.launched_ns.load(kRelaxed) != 0) continue;
    --left;
    if (HasText(operation.function, event.function)) oldest = position;
  }
  if (oldest != 0) not_launched_[slot].fetch_sub(1, kRelaxed);
  // Calls that a CUDA graph captured are never launched, and leave the table.
  if (left > 0) not_launched_[slot].fetch_sub(left, kRelaxed);
  return oldest;
}

uint64_t NcclProgress::Launch(uint32_t slot, const NcclEvent& event) {
  if (slot == kNoSlot) return 0;
  const bool is_message = event.type == foreign::nccl::kEventP2p;
  uint64_t position = FindEntered(slot, event);
  // Before version 5, and in replays of a CUDA graph, no call precedes the launch.
  if (position == 0) position = NewOperation(slot, event, is_message);
  const int64_t now = NowNs();
  Change(slot, position, [&](ProgressOperation& to) {
    if (is_message) to.peer.store(event.peer, kRelaxed);
    to.launched_ns.store(now, kRelaxed);
  });
  if (is_message) NumberMessage(slot, position, event);
  InBoth(slot, [](ProgressSlot& at) { at.stages.fetch_or(ring::kStageLaunched, kRelaxed); });
  return kMark | position << kSlotBits | slot;
}

void NcclProgress::NumberMessage(uint32_t slot, uint64_t position, const NcclEvent& event) {
  const uint64_t number = pairs_.Next(own_[slot].communicator.load(kRelaxed), event.peer, DirectionOf(event));
  log_.Update(logged_[slot][position & (ring::kProgressOperations - 1)].load(kRelaxed),
              [&](ring::LogEntry& entry) { entry.message_number.store(number, kRelaxed); });
}

void NcclProgress::ChannelStarts(uint64_t operation) {
  const uint32_t slot = operation & (ring::kProgressSlots - 1);
  const int64_t now = NowNs();
  Change(slot, PositionOf(operation), [&](ProgressOperation& to) {
    const uint32_t channels = to.channels.load(kRelaxed);
    if (channels == 0) to.started_ns.store(now, kRelaxed);
    to.completed_ns.store(0, kRelaxed);
    to.channels.store(channels + (1u << 16), kRelaxed);
  });
  InBoth(slot, [](ProgressSlot& at) { at.stages.fetch_or(ring::kStageKernel, kRelaxed); });
}

void NcclProgress::ChannelEnds(uint64_t operation) {
  const int64_t now = NowNs();
  Change(operation & (ring::kProgressSlots - 1), PositionOf(operation), [&](ProgressOperation& to) {
    const uint32_t channels = to.channels.load(kRelaxed) + 1;
    to.channels.store(channels, kRelaxed);
    if (channels >> 16 == (channels & 0xFFFF)) to.completed_ns.store(now, kRelaxed);
  });
}

}  // namespace lockstep::client
