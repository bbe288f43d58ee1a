// Collectives instance by instance: who came when, who waited, how long the data took.
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/prepare/collectives.h"
#include "views/tables/tables.h"

namespace lockstep::tables {
namespace {

using store::RankData;

struct MemberRow {
  const Input* in;
  const RankData* rank;
  const store::Collective* collective;
  const analysis::Part* part;
  const align::Instance* instance;  // null: matched with nobody
  uint32_t number;                  // of the instance
  bool last;

  const store::DeviceActivity& activity() const { return rank->activities[collective->activity]; }
  Nanos duration() const { return activity().end - activity().start; }
  JobTime At(HostTime t) const { return in->analysis.clock.ToJob(rank->host, t); }
  const store::Group* group() const {
    return collective->group < in->capture.groups.size() ? &in->capture.groups[collective->group] : nullptr;
  }
};

uint64_t CountMembers(const Input& in) {
  uint64_t rows = 0;
  for (const RankData& rank : in.capture.ranks) rows += rank.collectives.size();
  return rows;
}

MemberRow RowOf(const Input& in, const analysis::CollectiveTimes& times, align::Member m) {
  const RankData& rank = in.capture.ranks[m.rank_index];
  return {.in = &in,
          .rank = &rank,
          .collective = &rank.collectives[m.collective],
          .part = &times.parts[m.rank_index][m.collective],
          .instance = nullptr,
          .number = store::kNone,
          .last = false};
}

// By instance; then, by rank, those that no instance has.
void EachMember(const Input& in, RowSink<MemberRow>& out) {
  const align::Matches& matches = in.analysis.matches;
  const analysis::CollectiveTimes times = analysis::TimeCollectives(in.capture, matches, in.analysis.clock);
  for (uint32_t i = 0; i < matches.instances.size(); ++i) {
    const align::Instance& instance = matches.instances[i];
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
  // The rows point into `times`.
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
      Make<R>("instance", "", "rows of one number met each other; null: matched with nobody",
              [](const R& r) { return r.instance == nullptr ? std::nullopt : std::optional(r.number); }),
      Make<R>("group", "", "communicator; null: unknown",
              [](const R& r) {
                return r.group() == nullptr ? std::nullopt
                                            : std::optional<std::string_view>(r.group()->ShownName());
              }),
      Make<R>("group_size", "", "ranks of the communicator",
              [](const R& r) {
                return r.group() == nullptr || r.group()->size == 0 ? std::nullopt
                                                                    : std::optional(r.group()->size);
              }),
      Make<R>("op", "", "operation", [](const R& r) { return store::CollectiveOpName(r.collective->op); }),
      Make<R>("sequence", "", "the source's counter", Named<Unless<&store::Collective::sequence>>()),
      Make<R>("matched_by", "", "nccl_seq, pg_seq, graph, order",
              [](const R& r) { return r.instance == nullptr ? std::nullopt : std::optional(SourceName(r)); }),
      Make<R>("complete", "", "every member of the communicator is here",
              [](const R& r) { return r.instance != nullptr && r.instance->complete; }),
      Make<R>("rank", "", "world rank", [](const R& r) { return r.rank->rank; }),
      Make<R>("device", "", "CUDA ordinal in its process", [](const R& r) { return r.rank->device; }),
      Make<R>("incarnation", "", "2 and up for a rank that came back",
              [](const R& r) { return r.rank->incarnation; }),
      Make<R>("stream", "", "CUPTI's number", [](const R& r) { return r.activity().stream; }),
      Make<R>("start_ns", "ns", "Unix time on the job's clock",
              [](const R& r) { return r.At(r.activity().start); }),
      Make<R>("end_ns", "ns", "Unix time on the job's clock",
              [](const R& r) { return r.At(r.activity().end); }),
      Make<R>("duration_ns", "ns", "as the rank's own clock measured it",
              [](const R& r) { return r.duration(); }),
      Make<R>("wait_ns", "ns", "from its start, waiting for other ranks; null: cannot be told",
              [](const R& r) { return r.part->split ? std::optional(r.part->wait) : std::nullopt; }),
      Make<R>("transfer_ns", "ns", "the rest of the duration",
              [](const R& r) {
                return r.part->split ? std::optional(r.duration() - r.part->wait) : std::nullopt;
              }),
      Make<R>("last", "", "the one that the others waited for", [](const R& r) { return r.last; }),
      Make<R>("bytes", "bytes", "of this rank, as NCCL counts them",
              Named<Unless<&store::Collective::bytes>>()),
      Make<R>("root", "", "rank in the communicator", Named<Unless<&store::Collective::root>>()),
      Make<R>("peer", "", "rank in the communicator", Named<Unless<&store::Collective::peer>>()),
      Make<R>("operation", "", "what channel_timings and network_operations of this rank name it by",
              [](const R& r) {
                return r.collective->operation == 0 ? std::nullopt : std::optional(r.collective->operation);
              }),
  };
}

}  // namespace

void AddCollectiveTables(Sources& out) {
  out.push_back(std::make_unique<TableOf<MemberRow>>(
      TableTitle{"collective_instances",
                 "Every collective on every rank, matched: who came when and who waited."},
      CountMembers, EachMember, MemberColumns()));
}

}  // namespace lockstep::tables
