#include "analysis/gains/memory_need.h"

#include <algorithm>

namespace lockstep::analysis {
namespace {

// The program, its libraries, and structures that do not grow with the rows.
constexpr uint64_t kProgramBytes = uint64_t{32} << 20;
// Per kernel, copy and call, beyond the capture: the matches, the graph, the typical job and the split.
constexpr uint64_t kBytesPerRow = 300;
// The same with large tables on disk.
constexpr uint64_t kBytesPerRowOnDisk = 175;
// Per row and replaying thread beyond the first.
constexpr uint64_t kBytesPerRowAndThread = 48;
// Per row, for report.html with its views, after the analysis.
constexpr uint64_t kPageBytesPerRow = 420;
// Per row, for the matches, the calls by correlation and the steps.
constexpr uint64_t kStepBytesPerRow = 25;

}  // namespace

uint64_t BytesToHold(const AnalysisSize& size) { return kProgramBytes + size.held_bytes; }

uint64_t BytesToAnalyze(const AnalysisSize& size, unsigned threads) {
  const uint64_t one_thread = size.on_disk ? kBytesPerRowOnDisk : kBytesPerRow;
  const uint64_t analysis = one_thread + kBytesPerRowAndThread * (std::max(1u, threads) - 1);
  const uint64_t per_row = size.with_page ? std::max(analysis, kPageBytesPerRow) : analysis;
  return BytesToHold(size) + size.rows * per_row;
}

uint64_t BytesToFindSteps(const AnalysisSize& size) {
  return BytesToHold(size) + size.rows * kStepBytesPerRow;
}

std::optional<unsigned> ThreadsThatFit(const AnalysisSize& size, unsigned threads, uint64_t most_bytes) {
  for (unsigned n = std::max(1u, threads); n > 0; --n) {
    if (BytesToAnalyze(size, n) <= most_bytes) return n;
  }
  return std::nullopt;
}

size_t StepsThatFit(const AnalysisSize& size, std::span<const uint64_t> rows_of_step, uint64_t most_bytes) {
  const double held_per_row =
      size.rows == 0 ? 0 : static_cast<double>(size.held_bytes) / static_cast<double>(size.rows);
  uint64_t rows = 0;
  size_t steps = 0;
  for (size_t k = rows_of_step.size(); k > 0; --k) {
    rows += rows_of_step[k - 1];
    AnalysisSize part = size;
    part.rows = rows;
    part.held_bytes = static_cast<uint64_t>(held_per_row * static_cast<double>(rows));
    if (BytesToAnalyze(part, 1) > most_bytes) break;
    ++steps;
  }
  // The earliest of them is the lead-in.
  return steps == 0 ? 0 : steps - 1;
}

}  // namespace lockstep::analysis
