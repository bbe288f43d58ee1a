// Test helpers: written jobs with their reports, and the numbers of a written job, counted directly. Unions
// are counted microsecond by microsecond.
#ifndef LOCKSTEP_REPORT_COUNTED_JOB_FIXTURE_H_
#define LOCKSTEP_REPORT_COUNTED_JOB_FIXTURE_H_

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "report/report.h"
#include "report/written_job_fixture.h"
#include "tests/support/report_check.h"

namespace lockstep::report {

inline constexpr uint64_t kSeeds = 8;

struct Made {
  WrittenJob job;
  Report report;
};

inline const Made& MadeOf(uint64_t seed) {
  static std::map<uint64_t, Made> made;
  const auto it = made.find(seed);
  if (it != made.end()) return it->second;
  Made& m = made[seed];
  m.job = WriteJob(seed);
  m.report = Analyze(m.job.capture).report;
  tests::CheckedJson(m.report);
  tests::ExpectConsistent(m.report);
  return m;
}

inline void ForEachJob(const std::function<void(const WrittenJob&, const Report&)>& check) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Made& m = MadeOf(seed);
    check(m.job, m.report);
  }
}

// The first written step has no previous step, so the report does not use it.
inline constexpr int kFirstUsed = 1;

inline Nanos Micros(int64_t us) { return Nanos(us * 1000); }

// One flag per microsecond of [0, end).
using Clock = std::vector<char>;

inline int64_t LastOf(const WrittenJob& job) {
  int64_t last = 0;
  for (const WrittenRank& r : job.ranks) {
    for (const WrittenOp& op : r.ops) last = std::max(last, op.time.end);
    for (const Stretch& s : r.steps) last = std::max(last, s.end);
  }
  return last + 1;
}

inline void Mark(Clock& clock, Stretch time) {
  for (int64_t t = time.start; t < time.end; ++t) clock[static_cast<size_t>(t)] = 1;
}

inline int64_t Count(size_t ticks, const std::function<bool(size_t)>& yes) {
  int64_t count = 0;
  for (size_t t = 0; t < ticks; ++t) count += yes(t) ? 1 : 0;
  return count;
}

// Marks the time of the operations that `take` accepts.
inline Clock Marked(const WrittenJob& job, size_t rank, const std::function<bool(const WrittenOp&)>& take) {
  Clock clock(static_cast<size_t>(LastOf(job)), 0);
  for (const WrittenOp& op : job.ranks[rank].ops) {
    if (take(op)) Mark(clock, op.time);
  }
  return clock;
}

inline bool IsCompute(const WrittenOp& op) {
  return op.kind == capture::ActivityKind::kKernel && !op.communication;
}
inline bool IsMemory(const WrittenOp& op) { return op.kind != capture::ActivityKind::kKernel; }

inline int64_t LatestStart(const WrittenCollective& c) {
  int64_t latest = 0;
  for (const Stretch& s : c.times) latest = std::max(latest, s.start);
  return latest;
}

// Returns the wait of a member, by docs/analysis/waiting.md.
inline int64_t WaitOf(const WrittenCollective& c, size_t member) {
  const Stretch own = c.times[member];
  if (c.root < 0) {
    int64_t least = own.length();
    for (const Stretch& s : c.times) least = std::min(least, s.length());
    return own.length() - least;
  }
  const bool is_root = c.ranks[member] == c.root;
  int64_t needed = own.start;
  if (c.op == capture::CollectiveOp::kReduce && is_root) needed = LatestStart(c);
  for (size_t i = 0; i < c.ranks.size(); ++i) {
    if (c.op == capture::CollectiveOp::kBroadcast && c.ranks[i] == c.root) needed = c.times[i].start;
  }
  return std::clamp<int64_t>(needed - own.start, 0, own.length());
}

// Returns the rank that the others waited for. In a symmetric operation that is the rank that stayed
// shortest, in others the rank that caused the waiting. Negative: no rank waited.
inline int LastArriver(const WrittenCollective& c) {
  if (c.root < 0) {
    size_t last = 0;
    for (size_t i = 1; i < c.times.size(); ++i) {
      if (c.times[i].length() < c.times[last].length()) last = i;
    }
    return c.ranks[last];
  }
  int64_t waited = 0;
  int latest = -1;
  int64_t latest_start = 0;
  for (size_t i = 0; i < c.ranks.size(); ++i) {
    waited += WaitOf(c, i);
    if (c.ranks[i] == c.root || c.times[i].start <= latest_start) continue;
    latest = c.ranks[i];
    latest_start = c.times[i].start;
  }
  if (waited == 0) return -1;
  return c.op == capture::CollectiveOp::kBroadcast ? c.root : latest;
}

// Computes the four factors from the unions of each rank, in the unit of `elapsed`.
inline void ExpectFactors(const EfficiencyFactors& row, const std::vector<double>& compute,
                          const std::vector<double>& active, double elapsed) {
  double sum = 0, most = 0, most_active = 0;
  for (size_t i = 0; i < compute.size(); ++i) {
    sum += compute[i];
    most = std::max(most, compute[i]);
    most_active = std::max(most_active, active[i]);
  }
  const auto n = static_cast<double>(compute.size());
  EXPECT_NEAR(row.parallel.value(), sum / n / elapsed, 1e-12);
  EXPECT_NEAR(row.load_balance.value(), sum / n / most, 1e-12);
  EXPECT_NEAR(row.communication.value(), most / most_active, 1e-12);
  EXPECT_NEAR(row.orchestration.value(), most_active / elapsed, 1e-12);
}

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_COUNTED_JOB_FIXTURE_H_
