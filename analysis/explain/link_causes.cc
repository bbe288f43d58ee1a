#include "analysis/explain/link_causes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analysis/explain/nccl_evidence.h"

namespace lockstep::analysis {
namespace {

// Confidence that a group is slow, and not one of its members, if no other group of the members can be
// compared.
constexpr double kOneOfItsMembers = 0.65;

std::string OwnerName(const GraphInput& in, const Classes& classes, uint32_t owner) {
  const TransferOwner& o = classes.owners[owner];
  const std::string& group = in.capture.groups[o.group].name;
  if (!o.is_pair) return group;
  return absl::StrFormat("%s between ranks %d and %d", group,
                         in.capture.ranks[o.rank_indices[0]].rank.value(),
                         in.capture.ranks[o.rank_indices[1]].rank.value());
}

// Returns which transfers are slow, by how much, and what tells whose they are.
std::string LinkEvidence(const GraphInput& input, const Classes& classes, const SlowLink& link) {
  std::vector<std::string> names;
  for (uint32_t o : link.owners) names.push_back(OwnerName(input, classes, o));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.size() > 4) names = {names[0], names[1], names[2], absl::StrFormat("%d more", names.size() - 3)};
  const std::string when =
      link.slow_steps < 0.95 ? absl::StrFormat(" in %.0f%% of the steps", 100 * link.slow_steps) : "";
  if (link.has_no_peers)
    return absl::StrFormat(
        "transfers of %s take %.2fx as long as in its fast steps%s; no other group does "
        "the same, so nothing says which member",
        absl::StrJoin(names, ", "), link.ratio, when);
  const std::string what = link.kind == LinkKind::kCongestion
                               ? "in changing groups, with no member in common,"
                           : link.leaves_host              ? "that leave the host"
                           : link.kind == LinkKind::kGroup ? "in one group"
                                                           : "with others";
  std::string evidence = absl::StrFormat("transfers %s take %.2fx as long as others' of the same size%s (%s)",
                                         what, link.ratio, when, absl::StrJoin(names, ", "));
  const bool one = link.rank_indices.size() == 1;
  const std::string whose =
      one ? absl::StrFormat("rank %d", input.capture.ranks[link.rank_indices[0]].rank.value())
          : "these ranks";
  if (one && link.owners.size() > 1)
    absl::StrAppend(&evidence, "; only ", whose, " takes part in all of them");
  if (link.inside_normal > 0)
    absl::StrAppendFormat(&evidence, "; %d other group%s of %s %s not slow%s", link.inside_normal,
                          link.inside_normal == 1 ? "" : "s", whose, link.inside_normal == 1 ? "is" : "are",
                          link.is_certain ? "" : ", which makes it less certain");
  return evidence;
}

std::vector<std::string> EvidenceOfNccl(const GraphInput& input, const Classes& classes,
                                        const SlowLink& link) {
  std::vector<TransferOwner> owners;
  for (uint32_t o : link.owners) owners.push_back(classes.owners[o]);
  return NcclEvidence(input.capture, owners, link.rank_indices);
}

}  // namespace

std::vector<Explanation> ExplainLinks(const GraphInput& input, const Classes& classes,
                                      const LinkFindings& links) {
  std::vector<Explanation> out;
  const auto steps = input.steps.count();
  for (const SlowLink& link : links.slow) {
    Explanation e{.cause = link.kind == LinkKind::kCongestion ? Cause::kCongestion : Cause::kSlowLink,
                  .rank_indices = link.rank_indices,
                  .identified = link.identified,
                  .pieces = link.pieces};
    switch (link.kind) {
      case LinkKind::kRank:
        e.kind = link.rank_indices.size() == 1 ? CulpritKind::kRank : CulpritKind::kGroup;
        break;
      case LinkKind::kHost:
        e.kind = CulpritKind::kHost;
        break;
      case LinkKind::kGroup:
        e.kind = CulpritKind::kGroup;
        break;
      case LinkKind::kCongestion:
        e.kind = CulpritKind::kJob;
        break;
    }
    e.excess_ns =
        SumPerStep(e.pieces, steps) / static_cast<double>(std::max<size_t>(1, link.rank_indices.size()));
    e.leaves_host = link.leaves_host;
    if (!link.is_certain) e.rule_share = kOneOfItsMembers;
    e.evidence = EvidenceOfNccl(input, classes, link);
    e.evidence.insert(e.evidence.begin(), LinkEvidence(input, classes, link));
    out.push_back(std::move(e));
  }
  return out;
}

}  // namespace lockstep::analysis
