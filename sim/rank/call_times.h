// Measures the time that the rank's own thread spends in its CUDA calls, including the injected tools. Tests
// use it to show that a fault of Lockstep costs the job nothing.
#ifndef LOCKSTEP_SIM_RANK_CALL_TIMES_H_
#define LOCKSTEP_SIM_RANK_CALL_TIMES_H_

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "sim/engine/rank_engine.h"

namespace lockstep::sim {

// Forwards every event to another observer, and measures the calls. Only the engine's thread calls it.
class CallTimes final : public RankObserver {
 public:
  // Writes a line "monotonic_ns calls median_ns p99_ns longest_ns" to FOLDER/<rank>.calls for each quarter of
  // a second with calls. The time in a line is the end of its quarter. If the file cannot be opened, it says
  // so on stderr, and ok() is false. `next` must outlive it.
  CallTimes(const std::string& folder, uint32_t rank, RankObserver& next);
  bool ok() const { return file_ != nullptr; }

  void OnCallStart(OpRun run, VirtualTime start) override;
  void OnCallEnd(OpRun run, VirtualTime start, VirtualTime end) override;
  void OnMark(OpRun run, VirtualTime at) override { next_.OnMark(run, at); }
  void OnDevice(OpRun run, VirtualTime start, VirtualTime end) override { next_.OnDevice(run, start, end); }

 private:
  struct Close {
    void operator()(FILE* file) const { fclose(file); }
  };
  void WriteLine(MonoTime now);

  RankObserver& next_;
  const std::unique_ptr<FILE, Close> file_;
  MonoTime line_began_;
  std::map<OpRun, Nanos> begun_;  // calls without an end yet, with the time of their first half
  std::vector<Nanos> times_;      // of the current line
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_RANK_CALL_TIMES_H_
