#include "analysis/explain/host_merge.h"

#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"

namespace lockstep::analysis {
namespace {

// At least this share of a host's ranks is nearly all of them.
constexpr double kNearlyAllOfHost = 0.8;

std::string HostName(const capture::Capture& capture, uint32_t rank_index) {
  const uint32_t host = capture.ranks[rank_index].host;
  if (host >= capture.hosts.size()) return "";
  return capture.hosts[host].ShownName();
}

// If every launch on a host is slow, its processors are the cause. Otherwise the host has the cause of most
// of its ranks.
CauseFinding HostCause(const capture::Capture& capture, const std::vector<Explanation>& found,
                       const std::vector<size_t>& entries) {
  std::map<Cause, size_t> votes;
  for (size_t i : entries) ++votes[found[i].cause];
  CauseFinding out;
  size_t most = 0;
  for (const auto& [cause, count] : votes) {
    if (count > most) {
      most = count;
      out.cause = cause;
    }
  }
  out.rule_share = static_cast<double>(most) / static_cast<double>(entries.size());
  for (size_t i : entries) {
    if (found[i].cause != out.cause || found[i].evidence.empty()) continue;
    out.evidence.push_back(absl::StrFormat(
        "rank %d: %s", capture.ranks[found[i].rank_indices[0]].rank.value(), found[i].evidence[0]));
    break;
  }
  if (out.cause == Cause::kHostLaunch) out.cause = Cause::kCpuContention;
  return out;
}

// The entry of a host that replaces `entries` of `found`.
Explanation OfHost(const HostMergeInput& known, WorkKind kind, const std::vector<Explanation>& found,
                   const std::vector<size_t>& entries, uint32_t members) {
  const capture::Capture& capture = known.input.capture;
  std::vector<uint32_t> ranks;
  Explanation e{.kind = CulpritKind::kHost};
  for (size_t i : entries) {
    ranks.push_back(found[i].rank_indices[0]);
    e.excess_ns += found[i].excess_ns / static_cast<double>(entries.size());
  }
  e.rank_indices = ranks;
  e.pieces = known.excess.LevelPieces(ranks, kind);
  CauseFinding cause =
      kind == WorkKind::kKernels ? known.rules.OfKernels(ranks, 0) : HostCause(capture, found, entries);
  if (kind == WorkKind::kHost) {
    for (uint32_t r : ranks) e.pieces.insert(e.pieces.end(), known.pauses[r].begin(), known.pauses[r].end());
  }
  e.cause = cause.cause;
  e.rule_share = cause.rule_share;
  e.evidence = std::move(cause.evidence);
  e.evidence.push_back(absl::StrFormat("%d of %d ranks of %s, none of the other hosts' alike", entries.size(),
                                       members, HostName(capture, ranks[0])));
  return e;
}

}  // namespace

void MergeRanksOfHosts(const HostMergeInput& known, WorkKind kind, std::vector<Explanation>& found) {
  const capture::Capture& capture = known.input.capture;
  std::map<uint32_t, std::vector<size_t>> by_host;
  std::map<uint32_t, uint32_t> ranks_of_host;
  for (const capture::RankData& rank : capture.ranks) ++ranks_of_host[rank.host];
  if (ranks_of_host.size() < 2) return;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].kind == CulpritKind::kRank && !found[i].late)
      by_host[capture.ranks[found[i].rank_indices[0]].host].push_back(i);
  }
  // If all hosts are like that, no single one is the culprit.
  std::erase_if(by_host, [&](const auto& h) {
    return ranks_of_host[h.first] < 2 ||
           static_cast<double>(h.second.size()) < kNearlyAllOfHost * ranks_of_host[h.first];
  });
  if (by_host.size() == ranks_of_host.size()) return;
  std::vector<Explanation> merged;
  std::vector<uint8_t> taken(found.size(), 0);
  for (const auto& [host, entries] : by_host) {
    const uint32_t members = ranks_of_host[host];
    for (size_t i : entries) taken[i] = 1;
    merged.push_back(OfHost(known, kind, found, entries, members));
  }
  size_t kept = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (taken[i] == 0) std::swap(found[kept++], found[i]);
  }
  found.resize(kept);
  std::move(merged.begin(), merged.end(), std::back_inserter(found));
}

}  // namespace lockstep::analysis
