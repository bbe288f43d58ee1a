#include "formats/otf2/otf2_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "formats/common/stream_lanes.h"

namespace lockstep::formats {
namespace {

using capture::Capture;
using capture::CollectiveOp;
using capture::RankData;

JobTime Earliest(const Capture& capture, const capture::ClockModel& clock) {
  JobTime zero = JobTime::Max();
  for (const RankData& rank : capture.ranks) {
    HostTime first = HostTime::Max();
    if (!rank.activities.empty()) first = std::min(first, rank.activities.front().start);
    if (!rank.api_calls.empty()) first = std::min(first, rank.api_calls.front().start);
    if (!rank.ranges.empty()) first = std::min(first, rank.ranges.front().start);
    if (first != HostTime::Max()) zero = std::min(zero, clock.ToJob(rank.host, first));
  }
  return zero == JobTime::Max() ? JobTime() : zero;
}

class Planner {
 public:
  Planner(const Capture& capture, const capture::ClockModel& clock, Otf2Definitions& definitions)
      : capture_(capture), clock_(clock), definitions_(definitions) {}

  Otf2Plan Plan() {
    out_.zero = Earliest(capture_, clock_);
    AddHosts();
    for (const RankData& rank : capture_.ranks) AddRank(rank);
    for (uint32_t g = 0; g < capture_.groups.size(); ++g) AddCommunicator(g);
    return std::move(out_);
  }

 private:
  void AddHosts() {
    const std::string job = capture_.job.empty() ? "job" : absl::StrCat("job ", capture_.job);
    root_ = definitions_.AddNode(job, "machine", OTF2_UNDEFINED_SYSTEM_TREE_NODE,
                                 OTF2_SYSTEM_TREE_DOMAIN_MACHINE);
    for (size_t h = 0; h < capture_.hosts.size(); ++h) {
      hosts_.push_back(definitions_.AddNode(capture_.hosts[h].ShownName(), "node", root_,
                                            OTF2_SYSTEM_TREE_DOMAIN_SHARED_MEMORY));
      if (h >= clock_.hosts().size()) continue;
      const Nanos bound = clock_.hosts()[h].bound;
      definitions_.AddNodeProperty(hosts_[h], "LOCKSTEP::CLOCK_BOUND_NS",
                                   bound == Nanos::Max() ? "unknown" : absl::StrCat(bound.ns()));
    }
  }

  void AddRank(const RankData& rank) {
    const OTF2_SystemTreeNodeRef node = rank.host < hosts_.size() ? hosts_[rank.host] : root_;
    std::string name = absl::StrCat("rank ", rank.rank.value());
    if (rank.incarnation > 1) absl::StrAppend(&name, " (incarnation ", rank.incarnation, ")");
    Otf2Rank& planned = out_.ranks.emplace_back();
    planned.process = definitions_.AddProcess(name, node);
    AddLosses(rank, planned.process);
    planned.first_stream = definitions_.locations().size();
    // The format requires at least one stream per device.
    if (rank.activities.empty()) return;
    const OTF2_LocationGroupRef device =
        definitions_.AddDevice(absl::StrCat(name, " GPU ", rank.device.value()), node, planned.process);
    AddStreams(rank, device, planned);
  }

  void AddStreams(const RankData& rank, OTF2_LocationGroupRef device, Otf2Rank& planned) {
    StreamLanes lanes;
    std::map<std::pair<StreamId, uint32_t>, uint32_t> places;
    planned.lane_of.reserve(rank.activities.size());
    for (const capture::DeviceActivity& a : rank.activities) {
      const uint32_t lane = lanes.Place(a.stream, a.start, a.end);
      const auto placed = places.try_emplace({a.stream, lane}, planned.streams);
      if (placed.second) {
        const std::string more = lane == 0 ? "" : absl::StrCat(" (lane ", lane + 1, ")");
        definitions_.AddLocation({.name = absl::StrCat("stream ", a.stream.value(), more),
                                  .type = OTF2_LOCATION_TYPE_ACCELERATOR_STREAM,
                                  .group = device});
        ++planned.streams;
      }
      planned.lane_of.push_back(placed.first->second);
    }
  }

  void AddLosses(const RankData& rank, OTF2_LocationGroupRef process) {
    for (const capture::Loss& loss : rank.losses) {
      definitions_.AddProcessProperty(
          process, absl::StrCat("LOCKSTEP::LOST::", loss.stage, loss.kind.empty() ? "" : "::", loss.kind),
          absl::StrCat(loss.records, " records: ", loss.reason));
    }
  }

  // Streams that communicate in the group, in the order of their rank in the group. Ranks that are not
  // members come last.
  using Members = std::set<std::pair<uint32_t, OTF2_LocationRef>>;

  Members MembersOf(uint32_t group, const Otf2Communicator& c) const {
    Members members;
    for (size_t r = 0; r < capture_.ranks.size(); ++r) {
      const RankData& rank = capture_.ranks[r];
      const auto found = c.rank_in_group.find(rank.rank);
      const auto order =
          found != c.rank_in_group.end() ? found->second : static_cast<uint32_t>(c.rank_in_group.size() + r);
      for (const capture::Collective& one : rank.collectives) {
        if (one.group != group || one.activity >= rank.activities.size() ||
            Otf2RecordOf(one.op) == Otf2Record::kNone)
          continue;
        members.emplace(order, out_.ranks[r].first_stream + out_.ranks[r].lane_of[one.activity]);
      }
    }
    return members;
  }

  void AddCommunicator(uint32_t group) {
    Otf2Communicator& c = out_.by_group.emplace_back();
    const capture::Group& of = capture_.groups[group];
    for (uint32_t m = 0; m < of.members.size(); ++m) c.rank_in_group.emplace(of.members[m], m);
    const Members members = MembersOf(group, c);
    if (members.empty()) return;
    c.places.assign(of.members.size(), OTF2_UNDEFINED_UINT32);
    std::vector<OTF2_LocationRef> locations;
    for (const auto& member : members) {
      const auto place = static_cast<uint32_t>(locations.size());
      if (member.first < c.places.size()) c.places[member.first] = std::min(c.places[member.first], place);
      locations.push_back(member.second);
    }
    c.ref = definitions_.AddCommunicator(of.ShownName(), std::move(locations));
  }

  const Capture& capture_;
  const capture::ClockModel& clock_;
  Otf2Definitions& definitions_;
  Otf2Plan out_;
  OTF2_SystemTreeNodeRef root_ = 0;
  std::vector<OTF2_SystemTreeNodeRef> hosts_;
};

}  // namespace

Otf2Record Otf2RecordOf(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kUnknown:
    case CollectiveOp::kSendReceive:
      return Otf2Record::kNone;
    case CollectiveOp::kSend:
      return Otf2Record::kSend;
    case CollectiveOp::kReceive:
      return Otf2Record::kReceive;
    default:
      return Otf2Record::kCollective;
  }
}

Otf2Plan PlanOtf2(const Capture& capture, const capture::ClockModel& clock, Otf2Definitions& definitions) {
  return Planner(capture, clock, definitions).Plan();
}

}  // namespace lockstep::formats
