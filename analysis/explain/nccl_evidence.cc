#include "analysis/explain/nccl_evidence.h"

#include <algorithm>
#include <array>
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

// Adds NCCL's numbers of the rank's operations in the owner's group, or with the other rank of its pair.
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
      "channel %d of rank %d is busy %s per operation, its other %d %s: look at the network card or link of "
      "this channel (NCCL_DEBUG=INFO prints it)",
      slowest->first, rank.rank.value(), LengthText(slowest->second.mean()), channels.size() - 1,
      LengthText(usual));
}

std::string OfNetwork(const capture::RankData& rank, const std::set<uint64_t>& operations) {
  struct Wait {
    Nanos capture::ProxyOp::*part;
    const char* what;
    double ns = 0;
  };
  std::array waits = {Wait{&capture::ProxyOp::network_wait, "the network"},
                      Wait{&capture::ProxyOp::gpu_wait, "its own GPU"},
                      Wait{&capture::ProxyOp::peer_wait, "the peer"},
                      Wait{&capture::ProxyOp::flush_wait, "received data to reach the GPU's memory"}};
  double all = 0;
  for (const capture::ProxyOp& op : rank.proxy_ops) {
    if (!operations.contains(op.operation)) continue;
    for (Wait& wait : waits) {
      wait.ns += static_cast<double>((op.*wait.part).ns());
      all += static_cast<double>((op.*wait.part).ns());
    }
  }
  if (all <= 0) return "";
  std::stable_sort(waits.begin(), waits.end(), [](const Wait& a, const Wait& b) { return a.ns > b.ns; });
  std::string text = absl::StrFormat("rank %d's network operations wait for %s %.0f%% of their waiting",
                                     rank.rank.value(), waits[0].what, 100 * waits[0].ns / all);
  if (waits[1].ns > 0)
    absl::StrAppendFormat(&text, ", for %s %.0f%%", waits[1].what, 100 * waits[1].ns / all);
  if (waits[0].part != &capture::ProxyOp::network_wait)
    absl::StrAppend(&text, ": the network is not what they wait for");
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
  size_t ranks_with_evidence = 0;
  for (const auto& [rank_index, own] : operations) {
    if (ranks_with_evidence == kMostRanks) break;
    const size_t before = out.size();
    for (std::string sentence :
         {OfChannels(capture.ranks[rank_index], own), OfNetwork(capture.ranks[rank_index], own)}) {
      if (!sentence.empty()) out.push_back(std::move(sentence));
    }
    ranks_with_evidence += out.size() > before ? 1 : 0;
  }
  return out;
}

}  // namespace lockstep::analysis
