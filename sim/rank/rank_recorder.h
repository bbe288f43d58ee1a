// Turns the engine's events into the output that tools in the process see: CUPTI records, NVTX ranges, NCCL
// events.
#ifndef LOCKSTEP_SIM_RANK_RANK_RECORDER_H_
#define LOCKSTEP_SIM_RANK_RANK_RECORDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/cupti/core.h"
#include "sim/engine/dry_run.h"
#include "sim/engine/rank_engine.h"
#include "sim/rank/loaders.h"
#include "sim/rank/nccl_emulation.h"
#include "sim/rank/process_clock.h"

namespace lockstep::sim {

class RankRecorder final : public RankObserver {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t drop_ppm = 0;      // fraction of all records that are dropped
    bool keep_history = false;  // keeps every record's true stamps, for tests
    // Calls cudaProfilerStart at every `profile_every`-th step and cudaProfilerStop `profile_steps` steps
    // later. 0 means never.
    uint32_t profile_every = 0;
    uint32_t profile_steps = 0;
  };
  // All references must outlive it. Only the engine's thread calls it; for tools, that is the application's
  // thread.
  RankRecorder(const Program& program, const Model& model, const SimCore& cupti, const NvtxLoader& nvtx,
               NcclEmulation& nccl, const StampClock& clock, const Options& options);

  void OnCallStart(OpRun run, VirtualTime start) override;
  void OnCallEnd(OpRun run, VirtualTime start, VirtualTime end) override;
  void OnMark(OpRun run, VirtualTime at) override;
  void OnDevice(OpRun run, VirtualTime start, VirtualTime end) override;

  // Returns the number of steps whose first host op has begun.
  uint32_t steps_begun() const { return static_cast<uint32_t>(history_.step_starts.size()); }
  // Returns the end of the latest record so far.
  VirtualTime latest_end() const { return history_.end; }
  const RankHistory& history() const { return history_; }

 private:
  struct OpenCall {
    SimCall call;
    bool api = false;
    bool sync = false;
    bool event = false;
    std::vector<SimExternalId> external;
  };

  void NoteStep(OpRun run, VirtualTime at);
  // Records the program's own call of the profiler API between its steps. The call takes no time.
  void ProfilerCall(OpRun run, uint32_t cbid, VirtualTime at);
  void NoteRecord(OpRun run, VirtualTime start, VirtualTime end);
  void LaunchWork(OpRun call);
  bool WantsDevice(const scenario::Op& op) const;
  // Writes the record of a device op without its time stamps to `out`. Returns its size.
  size_t DeviceRecord(OpRun run, uint8_t* out) const;
  void SyncRecords(OpRun run, VirtualTime start, VirtualTime end, bool event);
  template <typename Record>
  void Emit(const Record& record, OpRun run, SimCall call, uint32_t part, VirtualTime start, VirtualTime end);
  Delivery DeliveryOf(OpRun run, uint32_t part) const;

  const Program& program_;
  const Model& model_;
  const SimCore& cupti_;
  const NvtxLoader& nvtx_;
  NcclEmulation& nccl_;
  const StampClock& clock_;
  Options options_;
  uint32_t pid_;
  uint32_t device_;
  uint32_t first_host_op_ = kNoIndex;
  std::map<OpRun, OpenCall> open_calls_;
  std::map<OpRun, uint64_t> tickets_;
  RankHistory history_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_RANK_RANK_RECORDER_H_
