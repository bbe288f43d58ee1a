#include "analysis/explain/nccl_evidence.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/explain/causes.h"
#include "base/median.h"

namespace lockstep::analysis {
namespace {

// A channel stands out if it is busy for this multiple of the median of the others.
constexpr double kStandsOut = 1.2;
constexpr size_t kMostRanks = 2;

struct Busy {
  double ns = 0;
  uint64_t operations = 0;
  double mean() const { return ns / static_cast<double>(operations); }
};

// The operations of the rank that belong to the owner: NCCL's numbers.
void AddOperations(const capture::Capture& in, uint32_t rank_index, const TransferOwner& owner,
                   std::set<uint64_t>& out) {
  const auto& members = in.groups[owner.group].members;
  for (const capture::Collective& c : in.ranks[rank_index].collectives) {
    if (c.group != owner.group || c.operation == 0) continue;
    if (owner.is_pair) {
      if (c.peer < 0 || static_cast<size_t>(c.peer) >= members.size()) continue;
      const RankId peer = members[static_cast<size_t>(c.peer)];
      const bool of_pair = std::any_of(owner.rank_indices.begin(), owner.rank_indices.end(), [&](uint32_t r) {
        return r != rank_index && in.ranks[r].rank == peer;
      });
      if (!of_pair) continue;
    }
    out.insert(c.operation);
  }
}

std::string OfChannels(const capture::RankData& rank, const std::set<uint64_t>& operations) {
  std::map<uint32_t, Busy> channels;
  for (const capture::ChannelTiming& t : rank.channel_timings) {
    if (!operations.contains(t.operation)) continue;
    Busy& busy = channels[t.channel];
    busy.ns += static_cast<double>((t.end - t.start).ns());
    ++busy.operations;
  }
  if (channels.size() < 2) return "";
  const auto slowest = std::max_element(channels.begin(), channels.end(), [](const auto& a, const auto& b) {
    return a.second.mean() < b.second.mean();
  });
  std::vector<double> others;
  for (const auto& [channel, busy] : channels) {
    if (channel != slowest->first) others.push_back(busy.mean());
  }
  const double usual = Median(std::move(others));
  if (slowest->second.mean() < kStandsOut * usual)
    return absl::StrFormat("all %d channels of rank %d are busy alike, %s per operation", channels.size(),
                           rank.rank.value(), LengthText(usual));
  return absl::StrFormat(
      "channel %d of rank %d is busy %s per operation, its other %d %s: look at the network card or link "
      "that "
      "this channel uses (NCCL_DEBUG=INFO prints it)",
      slowest->first, rank.rank.value(), LengthText(slowest->second.mean()), channels.size() - 1,
      LengthText(usual));
}

std::string OfNetwork(const capture::RankData& rank, const std::set<uint64_t>& operations) {
  double gpu = 0, peer = 0, network = 0, flush = 0;
  uint64_t count = 0;
  for (const capture::ProxyOp& op : rank.proxy_ops) {
    if (!operations.contains(op.operation)) continue;
    gpu += static_cast<double>(op.gpu_wait.ns());
    peer += static_cast<double>(op.peer_wait.ns());
    network += static_cast<double>(op.network_wait.ns());
    flush += static_cast<double>(op.flush_wait.ns());
    ++count;
  }
  const double all = gpu + peer + network + flush;
  if (count == 0 || all <= 0) return "";
  std::vector<std::pair<double, std::string>> parts = {{network, "the network"},
                                                       {gpu, "its own GPU"},
                                                       {peer, "the peer"},
                                                       {flush, "received data to reach the GPU's memory"}};
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text = absl::StrFormat("rank %d's network operations wait for %s %.0f%% of their waiting",
                                     rank.rank.value(), parts[0].second, 100 * parts[0].first / all);
  if (parts[1].first > 0)
    absl::StrAppendFormat(&text, ", for %s %.0f%%", parts[1].second, 100 * parts[1].first / all);
  if (parts[0].second != "the network") absl::StrAppend(&text, ": the network is not what they wait for");
  return text;
}

}  // namespace

std::vector<std::string> NcclEvidence(const capture::Capture& capture, std::span<const TransferOwner> owners,
                                      std::span<const uint32_t> rank_indices) {
  std::map<uint32_t, std::set<uint64_t>> operations;  // by rank index
  for (const TransferOwner& owner : owners) {
    for (uint32_t r : owner.rank_indices) {
      const bool wanted = rank_indices.empty() ||
                          std::find(rank_indices.begin(), rank_indices.end(), r) != rank_indices.end();
      if (wanted) AddOperations(capture, r, owner, operations[r]);
    }
  }
  std::vector<std::string> out;
  size_t told = 0;
  for (const auto& [rank_index, own] : operations) {
    const capture::RankData& rank = capture.ranks[rank_index];
    const std::string channels = OfChannels(rank, own), network = OfNetwork(rank, own);
    if (!channels.empty()) out.push_back(channels);
    if (!network.empty()) out.push_back(network);
    if ((!channels.empty() || !network.empty()) && ++told == kMostRanks) break;
  }
  return out;
}

}  // namespace lockstep::analysis
