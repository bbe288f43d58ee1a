// Traces out: one function per format (docs/formats/).
#ifndef LOCKSTEP_AGGREGATOR_TRACE_WRITERS_H_
#define LOCKSTEP_AGGREGATOR_TRACE_WRITERS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/files/byte_sink.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::trace {

// How far a writer is, in units of its own; called now and then from the thread that writes. May be empty.
using WriteProgress = std::function<void(uint64_t done, uint64_t total)>;

// Where rows are written that stand for a framework's annotations around collectives, which TensorBoard's
// plugin compares worker by worker.
struct KinetoOptions {
  const align::Matches* matches = nullptr;  // only for collectives that all their ranks have; null: for all
  HostInterval annotated = {};              // only for calls in it; empty: for all
  WriteProgress progress = {};              // in records of the rank
};
// One rank as Kineto's Chrome JSON, which Holistic Trace Analysis, TensorBoard's PyTorch plugin and Perfetto
// open unmodified.
absl::Status WriteKineto(const store::Capture& capture, uint32_t rank_index, const align::ClockModel& clock,
                         store::ByteSink& sink, const KinetoOptions& options = {});

// File name of contract.md: <host>_<rank>.<unix_ms>.pt.trace.json.gz
std::string KinetoFileName(const store::Capture& capture, uint32_t rank_index);

// What the report found, for a track of its own.
struct TraceFinding {
  std::string title;   // "rank 5 · gpu_clock · 7.4 ms a step"
  JobTime start, end;  // of the steps in which it costs
  std::vector<std::string> evidence;
};

struct PerfettoOptions {
  std::span<const TraceFinding> findings = {};
  WriteProgress progress = {};
};
// All ranks on one clock, with flows that join each collective across its ranks: Perfetto's protobuf.
absl::Status WritePerfetto(const store::Capture& capture, const align::Matches& matches,
                           const align::ClockModel& clock, store::ByteSink& sink,
                           const PerfettoOptions& options = {});

// The same as an archive (TAR) that viewers open as one trace: a file per rank on its own host's clock, the
// findings, and a manifest that says how the clocks lie to each other. Needs the memory of one rank's trace.
absl::Status WritePerfettoArchive(const store::Capture& capture, const align::Matches& matches,
                                  const align::ClockModel& clock, store::ByteSink& sink,
                                  const PerfettoOptions& options = {});

// All ranks on one clock as an OTF2 archive, which Vampir, Scalasca and otf2-print open: `folder` with
// traces.otf2 in it, which appears whole or not at all. An archive that is there is replaced, another folder
// with something in it refused (kFailedPrecondition). The library's way of telling errors is the process's:
// one call at a time.
absl::Status WriteOtf2(const store::Capture& capture, const align::Matches& matches,
                       const align::ClockModel& clock, const std::string& folder,
                       const WriteProgress& progress = {});

// What the simulated ranks replay (docs/formats/scenario.md).
absl::Status WriteScenario(const store::Capture& capture, const align::Matches& matches,
                           const align::ClockModel& clock, store::ByteSink& sink);

// All ranks on one clock as an SQLite file with the tables of Nsight Systems' export
// (docs/formats/nsys_sqlite.md). `path` appears complete or not at all.
absl::Status WriteNsysSqlite(const store::Capture& capture, const align::ClockModel& clock,
                             const std::string& path, const WriteProgress& progress = {});

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_WRITERS_H_
