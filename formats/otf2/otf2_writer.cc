#include "formats/otf2/otf2_writer.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/files/own_folder.h"
#include "formats/common/nested_lanes.h"
#include "formats/otf2/otf2_archive.h"
#include "formats/otf2/otf2_collective.h"
#include "formats/otf2/otf2_plan.h"

namespace lockstep::formats {
namespace {

using capture::ActivityKind;
using capture::Capture;
using capture::RankData;

// A name, and for a range its domain.
using RegionName = std::pair<NameId, NameId>;
// Properties that all regions of one kind of row share.
struct RegionUse {
  std::string_view unnamed;  // name of regions without a name
  OTF2_RegionRole role;
  OTF2_Paradigm paradigm;
};
// The regions of one RegionUse that are already defined.
using RegionCache = absl::flat_hash_map<RegionName, OTF2_RegionRef>;

class RankWriter {
 public:
  RankWriter(const Capture& capture, uint32_t index, const capture::Matches& matches,
             const capture::ClockModel& clock, const Otf2Plan& plan, Otf2Archive& out)
      : capture_(capture),
        index_(index),
        rank_(capture.ranks[index]),
        matches_(matches),
        clock_(clock),
        plan_(plan),
        out_(out) {}

  void Write() {
    for (uint32_t c = 0; c < rank_.collectives.size(); ++c) {
      if (rank_.collectives[c].activity < rank_.activities.size())
        collectives_of_.emplace(rank_.collectives[c].activity, c);
    }
    WriteStreams();
    WriteThreads();
  }

 private:
  JobTime At(HostTime t) const { return clock_.ToJob(rank_.host, t); }
  Otf2Definitions& definitions() { return out_.definitions(); }

  static std::optional<uint64_t> CorrelationOf(CorrelationId id) {
    return id.value() == 0 ? std::nullopt : std::optional<uint64_t>(id.value());
  }

  void WriteStreams() {
    const Otf2Rank& planned = plan_.ranks[index_];
    std::vector<std::vector<uint32_t>> lanes(planned.streams);
    for (uint32_t a = 0; a < planned.lane_of.size(); ++a) lanes[planned.lane_of[a]].push_back(a);
    for (uint32_t lane = 0; lane < lanes.size(); ++lane) {
      out_.BeginLocation(planned.first_stream + lane);
      // Activities of one lane do not overlap.
      for (const uint32_t a : lanes[lane]) WriteActivity(a);
    }
  }

  void WriteActivity(uint32_t index) {
    const capture::DeviceActivity& a = rank_.activities[index];
    const OTF2_RegionRef region = RegionOf(a);
    const bool is_copy = a.kind != ActivityKind::kKernel && a.detail < rank_.copy_details.size();
    const std::optional<uint64_t> bytes =
        is_copy ? std::optional(rank_.copy_details[a.detail].bytes) : std::nullopt;
    out_.Enter(At(a.start), region,
               {{Otf2Attribute::kCorrelation, CorrelationOf(a.correlation)}, {Otf2Attribute::kBytes, bytes}});
    const auto collectives = collectives_of_.equal_range(index);
    for (auto c = collectives.first; c != collectives.second; ++c) BeginCollective(c->second, At(a.start));
    for (auto c = collectives.first; c != collectives.second; ++c) EndCollective(c->second, At(a.end));
    out_.Leave(At(a.end), region);
  }

  OTF2_RegionRef RegionOf(const capture::DeviceActivity& a) {
    if (a.kind == ActivityKind::kKernel) {
      const bool known = a.communication && a.collective < rank_.collectives.size();
      const capture::CollectiveOp op =
          known ? rank_.collectives[a.collective].op : capture::CollectiveOp::kUnknown;
      const OTF2_RegionRole role =
          a.communication ? Otf2RoleOf(op) : OTF2_RegionRole{OTF2_REGION_ROLE_FUNCTION};
      return Cached({a.name, kNoName}, {"kernel", role, OTF2_PARADIGM_CUDA}, kernels_[role]);
    }
    return Cached({a.name, kNoName}, {"copy", OTF2_REGION_ROLE_DATA_TRANSFER, OTF2_PARADIGM_CUDA}, copies_);
  }

  OTF2_RegionRef Cached(RegionName name, const RegionUse& use, RegionCache& cache) {
    const auto found = cache.find(name);
    if (found != cache.end()) return found->second;
    const std::string_view text = name.first == kNoName ? use.unnamed : capture_.Text(name.first);
    const OTF2_RegionRef region =
        definitions().Region(text, capture_.Text(name.second), use.role, use.paradigm);
    cache.emplace(name, region);
    return region;
  }

  const Otf2Communicator* CommunicatorOf(const capture::Collective& c) const {
    const bool has = c.group < plan_.by_group.size() && Otf2RecordOf(c.op) != Otf2Record::kNone;
    return has ? &plan_.by_group[c.group] : nullptr;
  }

  // Tools pair messages by their order. A message whose partner was not recorded would shift all later pairs.
  std::optional<uint32_t> PartnerOf(uint32_t collective, const Otf2Communicator& c) const {
    const capture::Collective& one = rank_.collectives[collective];
    const uint32_t instance = matches_.instance_of[index_][collective];
    const bool met = instance < matches_.instances.size() && matches_.instances[instance].complete;
    if (!met || one.peer < 0 || static_cast<size_t>(one.peer) >= c.places.size()) return std::nullopt;
    const uint32_t place = c.places[static_cast<size_t>(one.peer)];
    return place == OTF2_UNDEFINED_UINT32 ? std::nullopt : std::optional(place);
  }

  // The format cannot express an unknown size. It is written as 0, without the attribute that known sizes
  // have.
  static uint64_t BytesOf(const capture::Collective& c) { return CountOf(c).value_or(0); }

  static std::optional<uint64_t> CountOf(const capture::Collective& c) {
    return c.bytes < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(c.bytes));
  }

  void BeginCollective(uint32_t collective, JobTime at) {
    const capture::Collective& one = rank_.collectives[collective];
    const Otf2Communicator* c = CommunicatorOf(one);
    if (c == nullptr) return;
    if (Otf2RecordOf(one.op) == Otf2Record::kCollective) return out_.CollectiveBegin(at);
    const std::optional<uint32_t> partner =
        one.op == capture::CollectiveOp::kSend ? PartnerOf(collective, *c) : std::nullopt;
    if (partner) out_.Send(at, {.partner = *partner, .communicator = c->ref, .bytes = BytesOf(one)});
  }

  void EndCollective(uint32_t collective, JobTime at) {
    const capture::Collective& one = rank_.collectives[collective];
    const Otf2Communicator* c = CommunicatorOf(one);
    if (c == nullptr) return;
    if (Otf2RecordOf(one.op) != Otf2Record::kCollective) {
      const std::optional<uint32_t> partner =
          one.op == capture::CollectiveOp::kReceive ? PartnerOf(collective, *c) : std::nullopt;
      if (partner) out_.Receive(at, {.partner = *partner, .communicator = c->ref, .bytes = BytesOf(one)});
      return;
    }
    const auto own = c->rank_in_group.find(rank_.rank);
    const bool is_root =
        own != c->rank_in_group.end() && one.root >= 0 && own->second == static_cast<uint32_t>(one.root);
    const bool root_known = one.root >= 0 && static_cast<size_t>(one.root) < c->places.size();
    const std::optional<Otf2Bytes> bytes = Otf2BytesOf(one, capture_.groups[one.group].size, is_root);
    const std::optional<uint64_t> sequence =
        one.sequence < 0 ? std::nullopt : std::optional<uint64_t>(one.sequence);
    out_.CollectiveEnd(
        at,
        {.op = Otf2OpOf(one.op),
         .communicator = c->ref,
         .root = root_known ? c->places[static_cast<size_t>(one.root)] : uint32_t{OTF2_COLLECTIVE_ROOT_NONE},
         .sent = bytes ? bytes->sent : 0,
         .received = bytes ? bytes->received : 0},
        {{Otf2Attribute::kSequence, sequence}, {Otf2Attribute::kBytes, CountOf(one)}});
  }

  struct HostSlice {
    HostTime start, end;
    OTF2_RegionRef region;
    CorrelationId correlation;
  };
  struct HostThread {
    NestedLanes lanes;
    std::vector<std::vector<HostSlice>> slices;  // by lane
  };

  // Calls are inside ranges, so both share lanes, merged by start.
  void WriteThreads() {
    std::map<ThreadId, HostThread> threads;
    size_t range = 0;
    for (const capture::ApiCall& call : rank_.api_calls) {
      for (; range < rank_.ranges.size() && rank_.ranges[range].start <= call.start; ++range)
        Place(rank_.ranges[range], threads);
      const OTF2_RegionRef region =
          Cached({call.name, kNoName}, {"call", OTF2_REGION_ROLE_FUNCTION, OTF2_PARADIGM_CUDA}, calls_);
      Place(call.thread, {call.start, call.end, region, call.correlation}, threads);
    }
    for (; range < rank_.ranges.size(); ++range) Place(rank_.ranges[range], threads);
    const OTF2_LocationGroupRef process = plan_.ranks[index_].process;
    // The format requires at least one thread per process.
    if (threads.empty()) {
      out_.BeginLocation(definitions().AddLocation(
          {.name = "host: nothing recorded", .type = OTF2_LOCATION_TYPE_CPU_THREAD, .group = process}));
    }
    for (const auto& entry : threads) {
      for (size_t lane = 0; lane < entry.second.slices.size(); ++lane) {
        out_.BeginLocation(definitions().AddLocation({.name = ThreadTitle(entry.first, lane),
                                                      .type = OTF2_LOCATION_TYPE_CPU_THREAD,
                                                      .group = process}));
        WriteSlices(entry.second.slices[lane]);
      }
    }
  }

  std::string ThreadTitle(ThreadId thread, size_t lane) const {
    std::string title = absl::StrCat("thread ", thread.value());
    for (const capture::ThreadName& named : rank_.thread_names) {
      if (named.thread == thread) absl::StrAppend(&title, " ", std::string(capture_.Text(named.name)));
    }
    if (lane > 0) absl::StrAppend(&title, " (lane ", lane + 1, ")");
    return title;
  }

  void Place(const capture::HostRange& r, std::map<ThreadId, HostThread>& threads) {
    const OTF2_RegionRef region =
        Cached({r.name, r.domain}, {"range", OTF2_REGION_ROLE_CODE, OTF2_PARADIGM_USER}, ranges_);
    Place(r.thread, {r.start, r.end, region, CorrelationId()}, threads);
  }

  static void Place(ThreadId id, const HostSlice& slice, std::map<ThreadId, HostThread>& threads) {
    HostThread& thread = threads[id];
    const size_t lane = thread.lanes.Place(slice.start, slice.end, [](size_t, HostTime) {});
    if (thread.slices.size() <= lane) thread.slices.resize(lane + 1);
    thread.slices[lane].push_back(slice);
  }

  // Each slice nests in the one before it, or follows it.
  void WriteSlices(const std::vector<HostSlice>& slices) {
    std::vector<const HostSlice*> open;
    const auto leave = [&] {
      out_.Leave(At(open.back()->end), open.back()->region);
      open.pop_back();
    };
    for (const HostSlice& slice : slices) {
      // An empty slice at the end of another slice lies inside it.
      while (!open.empty() &&
             (open.back()->end < slice.start || (open.back()->end == slice.start && slice.end > slice.start)))
        leave();
      out_.Enter(At(slice.start), slice.region,
                 {{Otf2Attribute::kCorrelation, CorrelationOf(slice.correlation)}});
      open.push_back(&slice);
    }
    while (!open.empty()) leave();
  }

  const Capture& capture_;
  const uint32_t index_;
  const RankData& rank_;
  const capture::Matches& matches_;
  const capture::ClockModel& clock_;
  const Otf2Plan& plan_;
  Otf2Archive& out_;
  std::multimap<uint32_t, uint32_t> collectives_of_;  // by activity, in the order of the collectives
  std::map<OTF2_RegionRole, RegionCache> kernels_;
  RegionCache copies_, calls_, ranges_;
};

absl::Status FillArchive(const Capture& capture, const capture::Matches& matches,
                         const capture::ClockModel& clock, const std::string& folder,
                         const WriteProgress& progress) {
  auto archive = Otf2Archive::Create(folder);
  if (!archive.ok()) return archive.status();
  const Otf2Plan plan = PlanOtf2(capture, clock, (*archive)->definitions());
  (*archive)->SetZero(plan.zero);
  for (uint32_t i = 0; i < capture.ranks.size() && !(*archive)->failed(); ++i) {
    RankWriter(capture, i, matches, clock, plan, **archive).Write();
    if (progress) progress(i + 1, capture.ranks.size());
  }
  return (*archive)->Finish(absl::StrCat("capture ", capture.id, " of job ", capture.job));
}

}  // namespace

absl::Status WriteOtf2(const Capture& capture, const capture::Matches& matches,
                       const capture::ClockModel& clock, const std::string& folder,
                       const WriteProgress& progress) {
  const auto partial = MakeFolderBeside(folder, OwnFolder::kOtf2Archive);
  if (!partial.ok()) return partial.status();
  absl::Status status = FillArchive(capture, matches, clock, *partial, progress);
  if (status.ok()) status = MoveOwnFolder(*partial, folder, OwnFolder::kOtf2Archive);
  // The archive can be made again.
  if (!status.ok()) RemoveOwnFolder(*partial, OwnFolder::kOtf2Archive).IgnoreError();
  return status;
}

}  // namespace lockstep::formats
