// lockstep modules: torch-tb-profiler's module view.
#include <utility>

#include "views/catalog/view_columns.h"
#include "views/host/modules.h"

namespace lockstep::tables {
namespace {

using R = views::ModuleRow;

std::vector<ColumnOf<R>> Columns() {
  return {
      Make<R>("rank", "", "null: all", [](const R& r) { return Known(r.rank); }),
      Make<R>("module", "", "its name, two blanks in front for each module around it",
              [](const R& r) { return std::string(r.depth * 2, ' ') + r.name; }),
      Make<R>("name", "", "of the module", [](const R& r) { return Known(r.name); }),
      Make<R>("path", "", "the modules around it and itself, with '/' between",
              [](const R& r) { return Known(r.path); }),
      Make<R>("depth", "", "how many are around it", [](const R& r) { return int64_t{r.depth}; }),
      Make<R>("occurrences", "", "how often it was called; null: not told",
              [](const R& r) {
                return r.occurrences == 0 ? std::nullopt : std::optional(static_cast<int64_t>(r.occurrences));
              }),
      Make<R>("operators", "", "that it called itself, in all calls", [](const R& r) { return r.operators; }),
      Make<R>("host_ns", "ns", "on the host, with what it called", [](const R& r) { return r.host; }),
      Make<R>("self_host_ns", "ns",
              "without the modules and operators in it; of module hierarchies: of its own operators",
              [](const R& r) { return r.self_host; }),
      Make<R>("device_ns", "ns", "of the device activities launched in it",
              [](const R& r) { return r.device; }),
      Make<R>("self_device_ns", "ns", "of those, launched in no module in it",
              [](const R& r) { return r.self_device; }),
      Make<R>("mean_ns", "ns", "of a call: on the device or, where it did nothing there, on the host",
              [](const R& r) {
                return r.occurrences == 0 ? std::nullopt
                                          : std::optional((r.device > Nanos() ? r.device : r.host) /
                                                          static_cast<int64_t>(r.occurrences));
              }),
  };
}

constexpr GroupName kGroupings[] = {{"rank", GroupBy::kRank, "each rank on its own"}};

// torch-tb-profiler's keys.
constexpr Alias kAliases[] = {
    {"occurences", "occurrences"},
    {"host_duration", "host_ns"},
    {"self_host_duration", "self_host_ns"},
    {"device_duration", "device_ns"},
    {"self_device_duration", "self_device_ns"},
    {"avg_duration", "mean_ns"},
};

MadeView MakeModules(const ViewInput& input, const ViewOptions& options) {
  const auto ranks = options.Has(GroupBy::kRank) ? views::ModuleRanks::kEach : views::ModuleRanks::kTogether;
  views::Modules modules = views::ModulesOf(input.capture, ranks);
  MadeView view{GridOf({"modules", "What each module cost."}, std::move(modules.rows), Columns()), {}};
  if (modules.source == views::ModuleSource::kNone) {
    view.notes.push_back(
        "nothing tells of modules: record with torch.profiler's with_stack=True or with_modules=True, or put "
        "record_function(\"nn.Module: NAME\") around "
        "their forward()");
  } else if (modules.source == views::ModuleSource::kHierarchy) {
    view.notes.push_back(
        "from the modules that PyTorch wrote on operators: how often each ran is not known, times are those "
        "of operators");
  }
  return view;
}

}  // namespace

View ModulesView() {
  return {.name = "modules",
          .about = "what each nn.Module cost, as a tree",
          .text = "torch-tb-profiler's module view. The backward pass runs in no module.\n",
          .groupings = kGroupings,
          .columns = "rank,module,occurrences,operators,host_ns,self_host_ns,device_ns,self_device_ns",
          .aliases = kAliases,
          .needs_frames = [](const ViewOptions&) { return true; },
          .make = &MakeModules};
}

}  // namespace lockstep::tables
