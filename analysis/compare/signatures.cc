#include "analysis/compare/signatures.h"

#include <algorithm>

#include "base/split_mix.h"

namespace lockstep::analysis {
namespace {

uint64_t SignatureOfTransfer(const GraphInput& input, const capture::RankData& rank,
                             const capture::DeviceActivity& a, uint64_t kind) {
  const capture::Collective& c = rank.collectives[a.collective];
  const int32_t size = c.group < input.capture.groups.size() ? input.capture.groups[c.group].size : 0;
  const uint64_t what = HashCombine(kind, static_cast<uint64_t>(c.op));
  // An uneven exchange moves other bytes each time, about equally many on average.
  const int64_t bytes = c.op == capture::CollectiveOp::kAllToAllV ? std::min<int64_t>(c.bytes, 0) : c.bytes;
  const uint64_t signature =
      HashCombine(what, HashCombine(static_cast<uint64_t>(bytes), static_cast<uint64_t>(size)));
  // If the bytes are unknown, two communicators of one size may move different amounts. Ranks that run one
  // program number their streams alike, so the stream is part of the signature.
  return c.bytes < 0 ? HashCombine(signature, a.stream.value()) : signature;
}

uint64_t SignatureOfDevice(const GraphInput& input, const Unit& unit) {
  const capture::RankData& rank = input.capture.ranks[unit.rank_index];
  const capture::DeviceActivity& a = rank.activities[unit.source];
  const auto kind = static_cast<uint64_t>(unit.kind) + 1;
  if (unit.kind == UnitKind::kTransfer && a.collective < rank.collectives.size())
    return SignatureOfTransfer(input, rank, a, kind);
  uint64_t signature = HashCombine(kind, a.name.value());
  if (unit.kind == UnitKind::kCopy) {
    if (a.detail >= rank.copy_details.size()) return HashCombine(signature, static_cast<uint64_t>(a.kind));
    const capture::CopyDetail& d = rank.copy_details[a.detail];
    return HashCombine(HashCombine(signature, d.bytes), d.copy_kind + (static_cast<uint64_t>(a.kind) << 8));
  }
  if (a.detail >= rank.kernel_details.size()) return signature;
  const capture::KernelDetail& d = rank.kernel_details[a.detail];
  signature = HashCombine(signature, (uint64_t{d.grid[0]} << 32) | d.grid[1]);
  return HashCombine(signature, (uint64_t{d.grid[2]} << 32) | (uint64_t{d.block[0]} << 20) |
                                    (uint64_t{d.block[1]} << 10) | d.block[2]);
}

}  // namespace

std::vector<uint64_t> NameSignatures(const Graph& graph, const GraphInput& input) {
  std::vector<uint64_t> signatures(graph.units.size(), 0), launched(graph.units.size(), 0);
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    const Unit& unit = graph.units[u];
    if (!IsHostUnit(unit.kind)) {
      signatures[u] = SignatureOfDevice(input, unit);
      continue;
    }
    const capture::ApiCall& call = input.capture.ranks[unit.rank_index].api_calls[unit.source];
    signatures[u] = HashCombine(call.name.value(), static_cast<uint64_t>(unit.kind) + 17);
  }
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    if (IsHostUnit(graph.units[u].kind)) continue;
    for (NodeRef p : graph.StartPreds(u)) {
      const bool launch = p == StartOf(UnitOf(p)) && IsHostUnit(graph.units[UnitOf(p)].kind);
      if (launch && launched[UnitOf(p)] == 0) launched[UnitOf(p)] = signatures[u];
    }
  }
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    if (launched[u] != 0) signatures[u] = HashCombine(signatures[u], launched[u]);
  }
  return signatures;
}

}  // namespace lockstep::analysis
