// Estimates the memory of the analysis before it begins.
//
// The numbers of bytes were measured with tools/dev/scale.py (docs/scaling.md, "Estimate of the memory").
// They have a margin, so the estimate is an upper limit for jobs like the measured ones. Pure; any thread.
#ifndef LOCKSTEP_ANALYSIS_GAINS_MEMORY_NEED_H_
#define LOCKSTEP_ANALYSIS_GAINS_MEMORY_NEED_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace lockstep::analysis {

// The analysis and everything that is made from it at the same time.
struct AnalysisSize {
  uint64_t rows = 0;        // kernels, copies and calls
  uint64_t held_bytes = 0;  // of the capture, as far as it is not on disk
  bool with_page = false;   // report.html follows
  bool on_disk = false;     // large tables of the analysis go to a file (capture/model/disk_rows.h)
};

// Returns the bytes of the process at the peak of the analysis, with that many replaying threads.
uint64_t BytesToAnalyze(const AnalysisSize& size, unsigned threads);
// Returns the bytes of the process that holds the capture.
uint64_t BytesToHold(const AnalysisSize& size);
// Returns the bytes of the process while it finds the steps of the capture.
uint64_t BytesToFindSteps(const AnalysisSize& size);

// Returns the largest number of threads from 1 to `threads` whose analysis fits. nullopt: one thread does not
// fit.
std::optional<unsigned> ThreadsThatFit(const AnalysisSize& size, unsigned threads, uint64_t most_bytes);

// A verdict compares steps, so it needs at least this many.
inline constexpr size_t kLeastKeptSteps = 2;

// Returns the number of steps at the end of the capture whose analysis fits on one thread, at most all but
// the first. `rows_of_step` has the rows of each step in the order of time. One step more stays before them,
// as lead-in: it shows when the first of them began. Less than kLeastKeptSteps: too few steps fit.
size_t StepsThatFit(const AnalysisSize& size, std::span<const uint64_t> rows_of_step, uint64_t most_bytes);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_GAINS_MEMORY_NEED_H_
