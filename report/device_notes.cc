#include "report/device_notes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "report/text_layout.h"

namespace lockstep::report {
namespace {

constexpr size_t kRanksNamed = 4;

// A rank may have several entries: one per device, and one per incarnation of its process.
void AddOnce(RankId rank, std::vector<RankId>& ranks) {
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
}

}  // namespace

std::vector<std::string> DeviceNotes(const capture::Capture& capture, const std::vector<std::string>& hosts) {
  std::map<std::string, std::vector<RankId>> by_name;
  std::map<std::pair<uint32_t, std::string>, std::vector<RankId>> by_device;  // host and UUID
  for (const capture::RankData& rank : capture.ranks) {
    if (!rank.properties.name.empty()) AddOnce(rank.rank, by_name[rank.properties.name]);
    if (!rank.properties.uuid.empty()) AddOnce(rank.rank, by_device[{rank.host, rank.properties.uuid}]);
  }
  std::vector<std::string> notes;
  if (by_name.size() > 1) {
    std::vector<std::string> kinds;
    for (const auto& [name, ranks] : by_name)
      kinds.push_back(absl::StrCat(name, " (", RankList(ranks, kRanksNamed), ")"));
    notes.push_back(
        absl::StrCat("the ranks do not run on the same kind of device: ", absl::StrJoin(kinds, ", ")));
  }
  for (const auto& [device, ranks] : by_device) {
    if (ranks.size() < 2) continue;
    const std::string host = device.first < hosts.size() ? absl::StrCat(" of ", hosts[device.first]) : "";
    notes.push_back(absl::StrCat(RankList(ranks, kRanksNamed), " share one device", host, " (", device.second,
                                 "): the kernels of one wait for those of the other"));
  }
  return notes;
}

}  // namespace lockstep::report
