#include "cli/common/choose_ranks.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/rpc/status_macros.h"
#include "cli/common/values.h"

namespace lockstep::cli {

absl::StatusOr<std::vector<uint32_t>> ChooseRanks(const capture::Capture& capture, const std::string& text) {
  std::vector<uint32_t> places(capture.ranks.size());
  std::iota(places.begin(), places.end(), 0u);
  if (text.empty()) return places;
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<int32_t> wanted, ParseRanks(text));
  const auto has = [&](int32_t rank) {
    return std::any_of(capture.ranks.begin(), capture.ranks.end(),
                       [&](const auto& r) { return r.rank == RankId(rank); });
  };
  std::vector<int32_t> unknown;
  std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(unknown),
               [&](int32_t rank) { return !has(rank); });
  if (!unknown.empty()) {
    return absl::NotFoundError(absl::StrCat("the capture has no rank ", absl::StrJoin(unknown, ", "),
                                            "; it has ", capture.ranks.size(),
                                            " entries, which `lockstep report` lists"));
  }
  std::erase_if(places, [&](uint32_t place) {
    return !std::binary_search(wanted.begin(), wanted.end(), capture.ranks[place].rank.value());
  });
  return places;
}

void KeepRanks(capture::Capture& capture, const std::vector<uint32_t>& places) {
  if (places.size() == capture.ranks.size()) return;
  std::vector<capture::RankData> chosen;
  for (const uint32_t place : places) chosen.push_back(std::move(capture.ranks[place]));
  capture.ranks = std::move(chosen);
}

}  // namespace lockstep::cli
