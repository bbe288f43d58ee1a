#include "analysis/explain/judged.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"

namespace lockstep::analysis {
namespace {

// Work is judged if at least this share of its time can be compared.
constexpr double kJudgedShare = 0.5;

// Time of one kind of work, and the part that can be compared.
struct Comparable {
  double all = 0, compared = 0;
  bool judged() const { return compared >= kJudgedShare * all; }
};

class JudgedFinder {
 public:
  JudgedFinder(const GraphInput& input, const Graph& graph, const Classes& classes, const Excess& excess,
               const Layout& layout, const LinkFindings& links, const KernelKinds& kinds)
      : in_(input),
        graph_(graph),
        classes_(classes),
        excess_(excess),
        layout_(layout),
        links_(links),
        kinds_(kinds) {}

  std::vector<NotJudged> Run() {
    JudgeRecords();
    ranks_.resize(in_.capture.ranks.size());
    for (uint32_t c = 0; c < classes_.cells.size(); ++c) AddCell(c);
    JudgeRanks("GPU speed and memory", kKernels, "run kernels that no other rank runs");
    JudgeRanks("hosts", kHosts, "launch work that no other rank launches");
    JudgeRanks("copies", kCopies, "copy what no other rank copies");
    JudgeLinks();
    JudgeStages();
    JudgeExperts();
    return std::move(out_);
  }

 private:
  enum Kind { kKernels, kHosts, kCopies, kKinds };

  void JudgeRecords() {
    const auto& ranks = in_.capture.ranks;
    if (std::none_of(ranks.begin(), ranks.end(), capture::HasOnlyCommunication)) return;
    out_.push_back({"what GPUs and hosts do between collectives", "only NCCL's operations were recorded",
                    "capture the running job (lockstep trace)"});
  }

  void AddCell(uint32_t c) {
    const Cell& cell = classes_.cells[c];
    if (cell.kind == UnitKind::kTransfer) return;
    const Kind kind = cell.kind == UnitKind::kKernel ? kKernels
                      : cell.kind == UnitKind::kCopy ? kCopies
                                                     : kHosts;
    Comparable& part = ranks_[cell.owner][kind];
    double time = 0;
    // Host units count by their number, because a host that is late works little.
    for (uint32_t u : classes_.UnitsOf(cell)) time += kind == kHosts ? 1 : std::max(0.0, graph_.work[u]);
    part.all += time;
    if (excess_.has_reference(c)) part.compared += time;
  }

  void JudgeRanks(const char* what, Kind kind, const char* alone) {
    std::vector<uint32_t> not_judged;
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      if (!ranks_[r][kind].judged()) not_judged.push_back(r);
    }
    if (not_judged.empty()) return;
    std::string why = "there is only one rank, so there is nothing to compare it with";
    if (ranks_.size() > 1) {
      why = not_judged.size() == 1
                ? absl::StrFormat("rank %d does what no other rank does", RankNumber(not_judged[0]))
                : absl::StrFormat("%d of %d ranks %s", not_judged.size(), ranks_.size(), alone);
    }
    out_.push_back({what, std::move(why), kCompareWithFast});
  }

  int32_t RankNumber(uint32_t r) const { return in_.capture.ranks[r].rank.value(); }

  struct Links {
    Comparable time;
    size_t owners = 0;
    bool uncertain = false;
  };

  void JudgeLinks() {
    std::vector<double> time(classes_.owners.size(), 0);
    for (const Cell& cell : classes_.cells) {
      if (cell.kind != UnitKind::kTransfer) continue;
      for (uint32_t u : classes_.UnitsOf(cell)) time[cell.owner] += std::max(0.0, graph_.work[u]);
    }
    std::vector<uint8_t> compared(classes_.owners.size(), 0);
    for (const TransferComparison& row : links_.compared) compared[row.owner] = 1;
    Links inside, between;
    bool neighbours_between = false;  // a group between hosts has several ranks of one host
    for (uint32_t o = 0; o < classes_.owners.size(); ++o) {
      if (time[o] <= 0) continue;
      const auto& members = classes_.owners[o].rank_indices;
      std::set<uint32_t> hosts;
      for (uint32_t r : members) hosts.insert(in_.capture.ranks[r].host);
      Links& links = hosts.size() > 1 ? between : inside;
      neighbours_between = neighbours_between || (hosts.size() > 1 && hosts.size() < members.size());
      links.owners += 1;
      links.time.all += time[o];
      if (compared[o] != 0) links.time.compared += time[o];
      links.uncertain = links.uncertain || IsUncertain(in_, classes_.owners[o]);
    }
    if (inside.owners > 0 && !inside.time.judged()) AddLinks("links inside hosts", inside);
    if (between.owners > 0 && !between.time.judged())
      AddLinks(
          inside.owners == 0 && neighbours_between ? "links inside and between hosts" : "links between hosts",
          between);
  }

  void AddLinks(const char* what, const Links& links) {
    std::string why = "no other group to compare them with, so a link that is always slow would not show";
    if (links.uncertain)
      why = "the communicators were inferred, and other groupings fit nearly as well";
    else if (links.owners == 1)
      why = "all ranks share one communicator, so a link that is always slow would not show";
    out_.push_back({what, std::move(why), kCompareWithFast});
  }

  // Messages without a known pipeline hide which stage a rank belongs to.
  void JudgeStages() {
    // Two ranks are compared with each other in any case.
    if (layout_.stages > 0 || ranks_.size() < 3) return;
    const bool pairs = std::any_of(classes_.owners.begin(), classes_.owners.end(),
                                   [](const TransferOwner& owner) { return owner.is_pair; });
    if (!pairs) return;
    out_.push_back({"stages", "ranks exchange messages, but their order shows no pipeline",
                    "record communicators and peers (NCCL's profiler plugin, or a PyTorch trace with "
                    "record_param_comms)"});
  }

  // A rank that gets more tokens is known by grouped products, or by the bytes that it receives.
  void JudgeExperts() {
    size_t unsized = 0;
    for (const capture::Instance& instance : in_.matches.instances) {
      if (instance.members.size() < 3 || (instance.op != capture::CollectiveOp::kAllToAllV &&
                                          instance.op != capture::CollectiveOp::kSendReceive))
        continue;
      unsized += std::any_of(instance.members.begin(), instance.members.end(), [&](const capture::Member& m) {
        const capture::Collective& c = in_.capture.ranks[m.rank_index].collectives[m.collective];
        return c.received_bytes < 0 && c.bytes <= 0;
      });
    }
    if (unsized == 0 || HasGroupedProducts()) return;
    out_.push_back(
        {"experts",
         absl::StrFormat("the sizes of %d exchanges (all-to-all) were not recorded, so a rank with "
                         "more tokens looks like one with a slow GPU",
                         unsized),
         "record sizes (NCCL's profiler plugin, or a PyTorch trace with record_param_comms)"});
  }

  bool HasGroupedProducts() const {
    return std::any_of(graph_.units.begin(), graph_.units.end(), [&](const Unit& unit) {
      const capture::RankData& rank = in_.capture.ranks[unit.rank_index];
      return unit.kind == UnitKind::kKernel &&
             kinds_.Of(rank, rank.activities[unit.source]) == KernelKind::kGrouped;
    });
  }

  const GraphInput& in_;
  const Graph& graph_;
  const Classes& classes_;
  const Excess& excess_;
  const Layout& layout_;
  const LinkFindings& links_;
  const KernelKinds& kinds_;
  std::vector<std::array<Comparable, kKinds>> ranks_;  // by rank index
  std::vector<NotJudged> out_;
};

}  // namespace

std::vector<NotJudged> FindNotJudged(const GraphInput& input, const Graph& graph, const Classes& classes,
                                     const Excess& excess, const Layout& layout, const LinkFindings& links,
                                     const KernelKinds& kinds) {
  return JudgedFinder(input, graph, classes, excess, layout, links, kinds).Run();
}

}  // namespace lockstep::analysis
