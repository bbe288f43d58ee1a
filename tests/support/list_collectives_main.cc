// list_collectives INPUT: prints the product's result for each communication kernel, for the evaluation
// (tests/scenario).
//
// For each rank it prints a line "rank N", then a line per collective in the order of their kernels. The line
// has the instance (-1: none or incomplete), and wait and transfer in ns (-1: unsplit).
//
// With --times it prints only times on one thread, in ms. The first is reading. The second is the work from
// records to units: matching, clocks, steps and the replay graph. The third is the whole analysis, with units
// and report.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "analysis/prepare/collectives.h"
#include "analysis/replay/graph.h"
#include "analysis/replay/prepared.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "formats/input/read_input.h"
#include "report/report.h"

namespace {

using Clock = std::chrono::steady_clock;
double MillisSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace lockstep;
  const bool times_only = argc == 3 && std::string(argv[1]) == "--times";
  if (argc != 2 && !times_only) {
    std::fprintf(stderr, "usage: list_collectives [--times] INPUT\n");
    return 2;
  }
  const std::vector<std::string> paths = {argv[argc - 1]};
  const auto begin = Clock::now();
  const auto capture = formats::ReadInput(paths, {.threads = 1});
  if (!capture.ok()) {
    std::fprintf(stderr, "%s\n", std::string(capture.status().message()).c_str());
    return 1;
  }
  if (times_only) {
    std::printf("read_ms %.1f\n", MillisSince(begin));
    const auto units_begin = Clock::now();
    {
      const analysis::Prepared prepared(*capture, 1);
      (void)analysis::BuildGraph(prepared.input());
    }
    std::printf("units_ms %.1f\n", MillisSince(units_begin));
    const auto analysis_begin = Clock::now();
    const report::Analysis analysis = report::Analyze(*capture, {.threads = 1});
    std::printf("analyze_ms %.1f\nstragglers %zu\n", MillisSince(analysis_begin),
                analysis.report.stragglers.size());
    return 0;
  }
  const capture::Matches matches = capture::Match(*capture);
  const capture::ClockModel clock = capture::EstimateClocks(*capture, matches);
  const analysis::CollectiveTimes times = analysis::TimeCollectives(*capture, matches, clock);
  for (size_t r = 0; r < capture->ranks.size(); ++r) {
    const capture::RankData& rank = capture->ranks[r];
    std::printf("rank %d\n", rank.rank.value());
    for (size_t i = 0; i < rank.collectives.size(); ++i) {
      const uint32_t n = matches.instance_of[r][i];
      const bool complete = n != capture::kNone && matches.instances[n].complete;
      const analysis::Part& part = times.parts[r][i];
      const capture::DeviceActivity& kernel = rank.activities[rank.collectives[i].activity];
      const int64_t wait = part.split ? part.wait.ns() : -1;
      const int64_t transfer = part.split ? (kernel.end - kernel.start - part.wait).ns() : -1;
      std::printf("%lld %lld %lld\n", complete ? static_cast<long long>(n) : -1, static_cast<long long>(wait),
                  static_cast<long long>(transfer));
    }
  }
  return 0;
}
