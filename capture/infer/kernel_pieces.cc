#include "capture/infer/kernel_pieces.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

namespace lockstep::capture {

KernelPieces CutPieces(std::span<const NamelessRank> ranks) {
  KernelPieces out;
  HostTime base = HostTime::Max();
  for (const NamelessRank& r : ranks) {
    if (!r.kernels.empty()) base = std::min(base, r.kernels.front().start);
  }
  const auto since = [&](HostTime t) { return static_cast<double>((t - base).ns()); };
  std::map<std::tuple<uint32_t, uint64_t, uint32_t>, uint32_t> index;  // rank, signature, stream
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    for (uint32_t k = 0; k < ranks[r].kernels.size(); ++k) {
      const NamelessKernel& kernel = ranks[r].kernels[k];
      const auto [it, fresh] =
          index.try_emplace({r, kernel.signature, kernel.stream}, static_cast<uint32_t>(out.list.size()));
      if (fresh)
        out.list.push_back({.rank = r,
                            .stream = kernel.stream,
                            .signature = kernel.signature,
                            .message = kernel.message,
                            .kernels = {},
                            .intervals = {}});
      out.list[it->second].kernels.push_back(k);
    }
  }
  // Names that more ranks run come first, and of these the rarer ones.
  std::map<uint64_t, std::pair<size_t, size_t>> use;  // ranks, kernels
  for (const auto& [key, p] : index) {
    KernelPiece& piece = out.list[p];
    const auto& kernels = ranks[piece.rank].kernels;
    const auto end = [&](uint32_t k) {
      return std::max(kernels[k].start, kernels[k].end);
    };  // a reversed record takes no time
    std::stable_sort(piece.kernels.begin(), piece.kernels.end(),
                     [&](uint32_t x, uint32_t y) { return end(x) < end(y); });
    for (uint32_t k : piece.kernels) piece.intervals.push_back({since(kernels[k].start), since(end(k))});
    out.by_signature[std::get<1>(key)].push_back(p);
    ++use[piece.signature].first;
    use[piece.signature].second += piece.kernels.size();
  }
  for (const auto& [signature, unused] : use) out.spread_out.push_back(signature);
  std::stable_sort(out.spread_out.begin(), out.spread_out.end(), [&](uint64_t x, uint64_t y) {
    return std::pair(use[y].first, use[x].second) < std::pair(use[x].first, use[y].second);
  });
  return out;
}

}  // namespace lockstep::capture
