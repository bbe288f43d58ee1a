// MakeWaitingRow(): the report's part about the delay cost, by causer and victim.
#include "report/rows.h"

namespace lockstep::report {
namespace {

// Fraction of all waiting. Cells with less are left out.
constexpr double kLeastCell = 1e-4;

}  // namespace

std::optional<WaitingRow> MakeWaitingRow(const RowInput& in) {
  const analysis::Waiting& w = in.diagnosis.waiting;
  if (w.suffered_ns.empty() || !in.diagnosis.has_ideal) return std::nullopt;
  WaitingRow row{.waited_ns_per_step = w.waited_ns,
                 .unexplained_ns_per_step = w.unexplained_ns,
                 .level = w.by_host ? "host" : "rank"};
  const std::vector<std::string> hosts = HostNames(in.capture);
  if (w.by_host) {
    row.places = hosts;
    row.places.resize(w.places);
  } else {
    for (const capture::RankData& rank : in.capture.ranks)
      row.places.push_back(std::to_string(rank.rank.value()));
  }
  for (const analysis::Waiting::Causer& c : w.causers) {
    const capture::RankData& rank = in.capture.ranks[c.rank_index];
    const double sum = w.direct_ns[c.rank_index] + w.passed_on_ns[c.rank_index];
    row.causers.push_back(
        {.rank = rank.rank,
         .host = rank.host < hosts.size() ? hosts[rank.host] : "",
         .mean_wait_ns_per_step = c.path.victims > 0 ? std::optional(sum / c.path.victims) : std::nullopt,
         .direct_ns_per_step = w.direct_ns[c.rank_index],
         .passed_on_ns_per_step = w.passed_on_ns[c.rank_index],
         .victims = c.path.victims,
         .path = c.text});
  }
  for (uint32_t causer = 0; causer < w.places; ++causer) {
    for (uint32_t victim = 0; victim < w.places; ++victim) {
      const double ns = w.matrix[causer * w.places + victim];
      if (ns > kLeastCell * w.waited_ns) row.cells.push_back({causer, victim, ns});
    }
  }
  return row;
}

}  // namespace lockstep::report
