// The table of collectives, instance by instance: the arrival, the waiting and the transfer of each member.
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/prepare/collectives.h"
#include "views/tables/tables.h"

namespace lockstep::views {
namespace {

using capture::RankData;

struct MemberRow {
  const Input* in;
  const RankData* rank;
  const capture::Collective* collective;
  const analysis::Part* part;
  const capture::Instance* instance;  // null: not matched
  uint32_t number;                    // of the instance
  bool last;

  const capture::DeviceActivity& activity() const { return rank->activities[collective->activity]; }
  Nanos duration() const { return activity().end - activity().start; }
  JobTime At(HostTime t) const { return in->analysis.clock.ToJob(rank->host, t); }
  const capture::Group* group() const {
    return collective->group < in->capture.groups.size() ? &in->capture.groups[collective->group] : nullptr;
  }
};

uint64_t CountMembers(const Input& in) {
  uint64_t rows = 0;
  for (const RankData& rank : in.capture.ranks) rows += rank.collectives.size();
  return rows;
}

MemberRow RowOf(const Input& in, const analysis::CollectiveTimes& times, capture::Member m) {
  const RankData& rank = in.capture.ranks[m.rank_index];
  return {.in = &in,
          .rank = &rank,
          .collective = &rank.collectives[m.collective],
          .part = &times.parts[m.rank_index][m.collective],
          .instance = nullptr,
          .number = capture::kNone,
          .last = false};
}

// Adds the members of each instance, then by rank the collectives without an instance.
void EachMember(const Input& in, RowSink<MemberRow>& out) {
  const capture::Matches& matches = in.analysis.matches;
  const analysis::CollectiveTimes times = analysis::TimeCollectives(in.capture, matches, in.analysis.clock);
  for (uint32_t i = 0; i < matches.instances.size(); ++i) {
    const capture::Instance& instance = matches.instances[i];
    for (uint32_t m = 0; m < instance.members.size(); ++m) {
      MemberRow row = RowOf(in, times, instance.members[m]);
      row.instance = &instance;
      row.number = i;
      row.last = times.instances[i].last == m;
      if (row.collective->activity < row.rank->activities.size()) out.Add(row);
    }
  }
  for (uint32_t r = 0; r < in.capture.ranks.size(); ++r) {
    const RankData& rank = in.capture.ranks[r];
    for (uint32_t c = 0; c < rank.collectives.size(); ++c) {
      const bool matched = matches.instance_of[r][c] < matches.instances.size();
      if (!matched && rank.collectives[c].activity < rank.activities.size())
        out.Add(RowOf(in, times, {r, c}));
    }
  }
  // The rows point into `times`, so they must be written before it is destroyed.
  out.Flush();
}

std::string_view SourceName(const MemberRow& r) {
  constexpr std::string_view kNames[] = {"nccl_seq", "pg_seq", "graph", "order"};
  return kNames[static_cast<size_t>(r.instance->source)];
}

template <auto member>
auto Unless(const MemberRow& r) {
  const auto value = r.collective->*member;
  return value < 0 ? std::nullopt : std::optional(value);
}

std::vector<ColumnOf<MemberRow>> MemberColumns() {
  using R = MemberRow;
  return {
      Make<R>("instance", "", "rows with one number are one instance; null: unmatched",
              [](const R& r) { return r.instance == nullptr ? std::nullopt : std::optional(r.number); }),
      Make<R>("communicator", "", "its name; null: unknown",
              [](const R& r) {
                return r.group() == nullptr ? std::nullopt
                                            : std::optional<std::string_view>(r.group()->ShownName());
              }),
      Make<R>("group_size", "", "ranks of the communicator",
              [](const R& r) {
                return r.group() == nullptr || r.group()->size == 0 ? std::nullopt
                                                                    : std::optional(r.group()->size);
              }),
      Make<R>("op", "", "operation", [](const R& r) { return capture::CollectiveOpName(r.collective->op); }),
      Make<R>("sequence", "", "sequence number of the source",
              Named<Unless<&capture::Collective::sequence>>()),
      Make<R>("matched_by", "", "nccl_seq, pg_seq, graph, order",
              [](const R& r) { return r.instance == nullptr ? std::nullopt : std::optional(SourceName(r)); }),
      Make<R>("complete", "", "true if every member of the communicator was recorded",
              [](const R& r) { return r.instance != nullptr && r.instance->complete; }),
      Make<R>("rank", "", "world rank", [](const R& r) { return r.rank->rank; }),
      Make<R>("device", "", "CUDA ordinal in its process", [](const R& r) { return r.rank->device; }),
      Make<R>("incarnation", "", "2 and higher: the rank was restarted",
              [](const R& r) { return r.rank->incarnation; }),
      Make<R>("stream", "", "CUPTI's number", [](const R& r) { return r.activity().stream; }),
      Make<R>("start_ns", "ns", "Unix time on the job's clock",
              [](const R& r) { return r.At(r.activity().start); }),
      Make<R>("end_ns", "ns", "Unix time on the job's clock",
              [](const R& r) { return r.At(r.activity().end); }),
      Make<R>("duration_ns", "ns", "duration on the rank's own clock",
              [](const R& r) { return r.duration(); }),
      Make<R>("wait_ns", "ns", "waiting for other ranks, from the start; null: unknown",
              [](const R& r) { return r.part->split ? std::optional(r.part->wait) : std::nullopt; }),
      Make<R>("transfer_ns", "ns", "rest of the duration",
              [](const R& r) {
                return r.part->split ? std::optional(r.duration() - r.part->wait) : std::nullopt;
              }),
      Make<R>("last", "", "true for the rank that the others waited for", [](const R& r) { return r.last; }),
      Make<R>("bytes", "bytes", "bytes of this rank, as NCCL counts them",
              Named<Unless<&capture::Collective::bytes>>()),
      Make<R>("root", "", "rank in the communicator", Named<Unless<&capture::Collective::root>>()),
      Make<R>("peer", "", "rank in the communicator", Named<Unless<&capture::Collective::peer>>()),
      Make<R>("operation", "", "reference from channel_timings and network_operations of this rank",
              [](const R& r) {
                return r.collective->operation == 0 ? std::nullopt : std::optional(r.collective->operation);
              }),
  };
}

}  // namespace

void AddCollectiveTables(Sources& out) {
  out.push_back(std::make_unique<TableOf<MemberRow>>(
      TableTitle{"collective_instances", "Every collective of every rank, with arrival and waiting."},
      CountMembers, EachMember, MemberColumns()));
}

}  // namespace lockstep::views
