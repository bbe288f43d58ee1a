#include "views/catalog/views.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "views/catalog/view_columns.h"

namespace lockstep::views {

bool ViewOptions::Has(GroupBy what) const {
  return std::find(group_by.begin(), group_by.end(), what) != group_by.end();
}

std::string_view View::ColumnsOf(const ViewOptions& options) const {
  for (const SubTable& t : tables) {
    if (options.table.empty() || options.table == t.name) return t.columns;
  }
  return columns;
}

std::vector<std::string> NotesOnFrames(const capture::Capture& capture) {
  size_t without = 0;
  for (const capture::RankData& rank : capture.ranks) {
    if (rank.frames == nullptr || rank.frames->frames.empty()) ++without;
  }
  if (without == 0) return {};
  const std::string who = without == capture.ranks.size()
                              ? "no rank has"
                              : absl::StrCat(without, " of ", capture.ranks.size(), " ranks have no");
  return {absl::StrCat(
      who,
      " operators: capture with `lockstep trace --via kineto` in a PyTorch job, run it under "
      "torch.autograd.profiler.emit_nvtx(record_shapes=True), or give traces of PyTorch's profiler")};
}

HostTime BeginOf(const capture::Capture& capture, RankId rank) {
  HostTime begin = HostTime::Max();
  for (const capture::RankData& r : capture.ranks) {
    if (r.rank == rank) begin = std::min(begin, r.window.start);
  }
  return begin;
}

std::span<const View> Views() {
  static const std::array kViews = {OverviewView(), OpsView(),         KernelsView(), MemoryView(),
                                    ModulesView(),  DistributedView(), DeviceView(),  LayersView(),
                                    HostView(),     LinksView()};
  return kViews;
}

}  // namespace lockstep::views
