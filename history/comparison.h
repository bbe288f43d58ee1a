// Compares two captures, or the captures of two jobs.
#ifndef LOCKSTEP_HISTORY_COMPARISON_H_
#define LOCKSTEP_HISTORY_COMPARISON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "history/history_store.h"
#include "history/metrics.h"
#include "history/model.h"

namespace lockstep::history {

// One capture, or all captures of a job.
struct ComparedSide {
  std::string name;
  std::vector<CaptureContext> captures;  // at least one
};

struct ComparedMetric {
  const Metric* metric = nullptr;
  std::optional<double> a, b;  // medians of the captures whose value is known
};

// A finding of either side. Findings of the same kind, cause and ranks are one.
struct ComparedFinding {
  Finding finding;            // of B's newest capture that has it, else of A's
  size_t in_a = 0, in_b = 0;  // captures that have it
};

struct ComparedLabel {
  std::string name;
  std::string a, b;  // of the newest capture that has it; empty: none
};

struct Comparison {
  ComparedSide a, b;
  std::vector<ComparedMetric> metrics;    // in the order of Metrics()
  std::vector<ComparedFinding> findings;  // first those only in B, then those only in A, then the rest
  std::vector<ComparedLabel> labels;      // only those that differ
};

// It is a pure function.
Comparison Compare(ComparedSide a, ComparedSide b);

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_COMPARISON_H_
