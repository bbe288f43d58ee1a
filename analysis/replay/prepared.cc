#include "analysis/replay/prepared.h"

namespace lockstep::analysis {
namespace {

std::vector<CallIndex> IndexCalls(const capture::Capture& capture) {
  std::vector<CallIndex> calls;
  calls.reserve(capture.ranks.size());
  for (const capture::RankData& rank : capture.ranks) calls.emplace_back(rank);
  return calls;
}

}  // namespace

Prepared::Prepared(const capture::Capture& of, unsigned with_threads)
    : capture(of),
      threads(with_threads),
      matches(capture::Match(of)),
      clock(capture::EstimateClocks(of, matches)),
      calls(IndexCalls(of)),
      steps(FindSteps(of, clock, calls)),
      times(TimeCollectives(of, matches, clock)),
      names(of) {}

}  // namespace lockstep::analysis
