#include "aggregator/analysis/tokens.h"

#include "base/split_mix.h"

namespace lockstep::analysis {
namespace {

uint64_t TokenOfTransfer(const GraphInput& input, const store::RankData& rank, const store::DeviceActivity& a,
                         uint64_t kind) {
  const store::Collective& c = rank.collectives[a.collective];
  const int32_t size = c.group < input.capture.groups.size() ? input.capture.groups[c.group].size : 0;
  const uint64_t what = HashCombine(kind, static_cast<uint64_t>(c.op));
  const uint64_t token =
      HashCombine(what, HashCombine(static_cast<uint64_t>(c.bytes), static_cast<uint64_t>(size)));
  // Of unknown bytes two communicators of one size need not move the same; ranks that run one program number
  // their streams alike.
  return c.bytes < 0 ? HashCombine(token, a.stream.value()) : token;
}

uint64_t TokenOfDevice(const GraphInput& input, const Unit& unit) {
  const store::RankData& rank = input.capture.ranks[unit.rank_index];
  const store::DeviceActivity& a = rank.activities[unit.source];
  const auto kind = static_cast<uint64_t>(unit.kind) + 1;
  if (unit.kind == UnitKind::kTransfer && a.collective < rank.collectives.size())
    return TokenOfTransfer(input, rank, a, kind);
  uint64_t token = HashCombine(kind, a.name.value());
  if (unit.kind == UnitKind::kCopy) {
    if (a.detail >= rank.copy_details.size()) return HashCombine(token, static_cast<uint64_t>(a.kind));
    const store::CopyDetail& d = rank.copy_details[a.detail];
    return HashCombine(HashCombine(token, d.bytes), d.copy_kind + (static_cast<uint64_t>(a.kind) << 8));
  }
  if (a.detail >= rank.kernel_details.size()) return token;
  const store::KernelDetail& d = rank.kernel_details[a.detail];
  token = HashCombine(token, (uint64_t{d.grid[0]} << 32) | d.grid[1]);
  return HashCombine(token, (uint64_t{d.grid[2]} << 32) | (uint64_t{d.block[0]} << 20) |
                                (uint64_t{d.block[1]} << 10) | d.block[2]);
}

}  // namespace

std::vector<uint64_t> NameTokens(const Graph& graph, const GraphInput& input) {
  std::vector<uint64_t> tokens(graph.units.size(), 0), launched(graph.units.size(), 0);
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    const Unit& unit = graph.units[u];
    if (!IsHostUnit(unit.kind)) {
      tokens[u] = TokenOfDevice(input, unit);
      continue;
    }
    const store::ApiCall& call = input.capture.ranks[unit.rank_index].api_calls[unit.source];
    tokens[u] = HashCombine(call.name.value(), static_cast<uint64_t>(unit.kind) + 17);
  }
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    if (IsHostUnit(graph.units[u].kind)) continue;
    for (NodeRef p : graph.StartPreds(u)) {
      const bool launch = p == StartOf(UnitOf(p)) && IsHostUnit(graph.units[UnitOf(p)].kind);
      if (launch && launched[UnitOf(p)] == 0) launched[UnitOf(p)] = tokens[u];
    }
  }
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    if (launched[u] != 0) tokens[u] = HashCombine(tokens[u], launched[u]);
  }
  return tokens;
}

}  // namespace lockstep::analysis
