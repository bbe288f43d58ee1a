#include "analysis/replay/prepared.h"

#include <optional>
#include <utility>

#include "base/parallel.h"

namespace lockstep::analysis {
namespace {

std::vector<CallIndex> IndexCalls(const capture::Capture& capture, unsigned threads) {
  std::vector<std::optional<CallIndex>> of_rank(capture.ranks.size());
  ParallelFor(ThreadCount(threads), of_rank.size(),
              [&](unsigned, size_t r) { of_rank[r].emplace(capture.ranks[r]); });
  std::vector<CallIndex> calls;
  calls.reserve(of_rank.size());
  for (std::optional<CallIndex>& index : of_rank) calls.push_back(*std::move(index));
  return calls;
}

}  // namespace

Prepared::Prepared(const capture::Capture& of, unsigned with_threads, capture::DiskRows* on_disk)
    : capture(of),
      threads(with_threads),
      disk(on_disk),
      matches(capture::Match(of)),
      clock(capture::EstimateClocks(of, matches)),
      calls(IndexCalls(of, with_threads)),
      steps(FindSteps(of, clock, calls)),
      times(TimeCollectives(of, matches, clock)),
      names(of) {}

}  // namespace lockstep::analysis
