#include "web/page/timeline_ranks.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace lockstep::web {
namespace {

using report::RankRow;
using report::Report;

// Returns the row with the highest score among those that `may` accepts.
template <typename May, typename Score>
std::optional<uint32_t> Best(const std::vector<RankRow>& rows, May may, Score score) {
  std::optional<uint32_t> best;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    if (may(i) && (!best || score(rows[i]) > score(rows[*best]))) best = i;
  }
  return best;
}

std::optional<uint32_t> IndexOf(const Report& report, RankId rank) {
  return Best(
      report.ranks, [&](uint32_t i) { return report.ranks[i].rank == rank; },
      [](const RankRow&) { return 0; });
}

// Returns the rank that waited most for the culprit. If waiting is known only by host, returns the rank that
// waited most.
std::optional<uint32_t> VictimOf(const Report& report, uint32_t culprit) {
  const auto other = [&](uint32_t i) { return i != culprit; };
  if (report.waiting && report.waiting->level == "rank") {
    const std::string name = std::to_string(report.ranks[culprit].rank.value());
    const report::WaitingCellRow* most = nullptr;
    for (const auto& cell : report.waiting->cells) {
      const auto& places = report.waiting->places;
      if (cell.causer >= places.size() || cell.victim >= places.size()) continue;
      const bool of_it = places[cell.causer] == name && places[cell.victim] != name;
      if (of_it && (most == nullptr || cell.wait_ns_per_step > most->wait_ns_per_step)) most = &cell;
    }
    if (most != nullptr) {
      const std::string& victim = report.waiting->places[most->victim];
      int32_t number = -1;
      std::from_chars(victim.data(), victim.data() + victim.size(), number);
      if (const auto index = IndexOf(report, RankId(number))) return index;
    }
  }
  return Best(report.ranks, other, [](const RankRow& r) { return r.exposed_wait; });
}

}  // namespace

std::vector<ChosenRank> ChooseRanks(const capture::Capture& capture, const report::Analysis& analysis) {
  const Report& report = analysis.report;
  if (report.ranks.empty() || report.ranks.size() != capture.ranks.size()) return {};
  const bool found = !report.stragglers.empty() && !report.stragglers[0].ranks.empty();
  std::optional<uint32_t> first = found ? IndexOf(report, report.stragglers[0].ranks[0]) : std::nullopt;
  if (!first)
    first = Best(
        report.ranks, [](uint32_t) { return true; }, [](const RankRow& r) { return r.caused_wait; });
  std::vector<ChosenRank> chosen{{*first, found ? "culprit" : "waited for most"}};
  const std::optional<uint32_t> victim = VictimOf(report, *first);
  if (!victim) return chosen;
  chosen.push_back({*victim, "victim"});
  // The peer is a typical rank: its compute is the median of the ranks that are not stragglers.
  std::vector<Nanos> computes;
  const auto accused = [&](RankId rank) {
    return std::any_of(report.stragglers.begin(), report.stragglers.end(), [&](const auto& s) {
      return std::find(s.ranks.begin(), s.ranks.end(), rank) != s.ranks.end();
    });
  };
  const auto free = [&](uint32_t i) { return i != *first && i != *victim && !accused(report.ranks[i].rank); };
  // A healthy rank of another pipeline stage looks different. Without known stages, a rank with as many
  // activities is a better choice.
  const bool stages = analysis.stage_of.size() == capture.ranks.size() && analysis.stage_of[*first] >= 0;
  const auto alike = [&](uint32_t i) {
    if (stages) return free(i) && analysis.stage_of[i] == analysis.stage_of[*first];
    const auto mine = static_cast<double>(capture.ranks[*first].activities.size());
    return free(i) && std::abs(static_cast<double>(capture.ranks[i].activities.size()) - mine) <= 0.02 * mine;
  };
  bool any_alike = false;
  for (uint32_t i = 0; i < report.ranks.size(); ++i) any_alike |= alike(i);
  const auto may = [&](uint32_t i) { return any_alike ? alike(i) : free(i); };
  for (uint32_t i = 0; i < report.ranks.size(); ++i) {
    if (may(i)) computes.push_back(report.ranks[i].compute);
  }
  if (computes.empty()) return chosen;
  std::nth_element(computes.begin(), computes.begin() + static_cast<std::ptrdiff_t>(computes.size() / 2),
                   computes.end());
  const Nanos median = computes[computes.size() / 2];
  const auto peer = Best(report.ranks, may, [&](const RankRow& r) {
    return r.compute > median ? median - r.compute : r.compute - median;
  });
  chosen.push_back({*peer, "peer"});
  return chosen;
}

}  // namespace lockstep::web
