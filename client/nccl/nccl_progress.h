// Keeps the latest operations of each communicator in the segment's progress table (wire/ring/progress.h), so
// that `lockstep hang` can explain a process that no longer answers. It also writes all operations to the
// segment's operation log.
//
// It is off unless LOCKSTEP_PROGRESS is 1 (`lockstep run --mode nccl`). It then costs some stores and one
// read of a clock per event, in NCCL's threads, without locks. It keeps a private copy, with which it fills
// the table of the next segment if the daemon was restarted. The log then begins empty.
//
// NCCL calls for one communicator from one thread at a time, except for its proxy thread. Only that thread
// reports channels. If an application breaks this rule, single values may be wrong, and nothing else happens.
#ifndef LOCKSTEP_CLIENT_NCCL_NCCL_PROGRESS_H_
#define LOCKSTEP_CLIENT_NCCL_NCCL_PROGRESS_H_

#include <atomic>
#include <cstdint>

#include "client/nccl/nccl_event.h"
#include "client/nccl/pair_counts.h"
#include "client/record/operation_log.h"
#include "client/record/recording_flags.h"
#include "client/record/timing.h"
#include "wire/ring/progress.h"

namespace lockstep::client {

class NcclProgress {
 public:
  static constexpr uint32_t kNoSlot = ~0u;

  // Both outlive this.
  constexpr NcclProgress(RecordingFlags& flags, OperationLog& log) : flags_(flags), log_(log) {}

  // Call it before the first communicator. If it cannot allocate its tables, it stays off.
  void TurnOn(const Timing& timing);
  bool on() const { return flags_.progress.load(std::memory_order_relaxed) != 0; }

  // ---- NCCL's threads; only while it is on ----
  // Returns kNoSlot if all places are taken. The communicator is then not followed. `stages`: those that
  // NCCL's version reports (ring::ProgressStages); others are added when they come.
  uint32_t Add(uint64_t communicator, const char* name, int32_t rank, int32_t ranks, uint32_t stages);
  void Remove(uint32_t slot);
  // The application has called a function of NCCL: kEventCollApi, kEventP2pApi.
  void Enter(uint32_t slot, const NcclEvent& event);
  // NCCL has launched the operation: kEventColl, kEventP2p, kEventCeColl. Returns the operation's id, which
  // is unique in the process; 0: not followed.
  uint64_t Launch(uint32_t slot, const NcclEvent& event);
  // A channel of the operation's kernel begins or ends on the GPU.
  void ChannelStarts(uint64_t operation);
  void ChannelEnds(uint64_t operation);
  // Returns the operation's position in its communicator; 0: Launch did not make this id.
  static uint64_t PositionOf(uint64_t id) { return IsOperation(id) ? (id & ~kMark) >> kSlotBits : 0; }
  // Returns whether Launch made this id.
  static bool IsOperation(uint64_t id) { return (id & kMark) != 0; }

  // ---- the agent's thread ----
  // From now on it also writes to `table`, which must stay mapped until the next call. Null: to none.
  void Attach(ring::ProgressSlot* table, uint32_t slots);

 private:
  static constexpr uint32_t kSlotBits = 7;
  static constexpr uint64_t kMark = uint64_t{1} << 50;
  static_assert(ring::kProgressSlots == 1u << kSlotBits);

  // Positions in the log, by place in ProgressSlot::operations.
  using LogPositions = std::atomic<uint64_t>[ring::kProgressOperations];

  template <typename Write>
  void InBoth(uint32_t slot, Write write);
  // Changes the operation in all tables and the log. One whose place was taken again is left out.
  template <typename Write>
  void Change(uint32_t slot, uint64_t position, Write write);
  // Returns kNoSlot if none is free.
  uint32_t TakeSlot();
  uint64_t NewOperation(uint32_t slot, const NcclEvent& event, bool is_message);
  void NumberMessage(uint32_t slot, uint64_t position, const NcclEvent& event);
  // Returns the oldest operation that was entered and not launched, and fits the event; 0: none.
  uint64_t FindEntered(uint32_t slot, const NcclEvent& event);
  int64_t NowNs() const { return timing_->realtime().ns(); }

  RecordingFlags& flags_;
  OperationLog& log_;
  PairCounts pairs_;  // since the start of the process
  // Operations that were entered and not launched, by slot.
  std::atomic<uint32_t> not_launched_[ring::kProgressSlots] = {};
  const Timing* timing_ = nullptr;     // set before the first communicator
  ring::ProgressSlot* own_ = nullptr;  // the private copy; set before the first communicator
  LogPositions* logged_ = nullptr;     // by slot; set with own_
  std::atomic<ring::ProgressSlot*> shared_{nullptr};
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NCCL_NCCL_PROGRESS_H_
