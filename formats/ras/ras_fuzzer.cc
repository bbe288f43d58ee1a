// Feeds any bytes to the readers of RAS's answers, and their results to the conclusions.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "analysis/hang/ras_report.h"
#include "formats/ras/ras.h"

namespace lockstep {
namespace {

void Conclude(const absl::StatusOr<analysis::RasState>& state) {
  if (!state.ok()) return;
  analysis::HangJob job;
  job.world_size = 2;
  for (const int32_t rank : {0, 1}) {
    analysis::HangRank& made = job.ranks.emplace_back();
    made.rank = RankId(rank);
    made.pid = 100 + rank;
    made.host = "node1";
    if (!state->communicators.empty())
      made.communicators.push_back({.id = state->communicators[0].hash, .rank = rank, .ranks = 2});
  }
  analysis::CompareRasReadings(*state, *state, job, Nanos::Seconds(1));
  analysis::HangFinding finding;
  finding.wait.number = 2;
  finding.wait.communicator = state->communicators.empty() ? 0 : state->communicators[0].hash;
  finding.wait.late = {RankId(1)};
  analysis::CheckWithRas(finding, job, *state);
}

}  // namespace
}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view answer(reinterpret_cast<const char*>(data), size);
  lockstep::Conclude(lockstep::formats::ParseRasJson(answer));
  lockstep::Conclude(lockstep::formats::ParseRasText(answer));
  return 0;
}
