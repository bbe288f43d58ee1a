// lockstep modules: shows torch-tb-profiler's module view.
#include <utility>

#include "views/catalog/view_columns.h"
#include "views/host/modules.h"

namespace lockstep::views {
namespace {

std::vector<ColumnOf<ModuleRow>> ModulesColumns() {
  using R = ModuleRow;
  return {
      Make<R>("rank", "", "rank of the row; null: all ranks", [](const R& r) { return Known(r.rank); }),
      Make<R>("module", "", "name, indented by two blanks per enclosing module",
              [](const R& r) { return std::string(r.depth * 2, ' ') + r.name; }),
      Make<R>("name", "", "name of the module", [](const R& r) { return Known(r.name); }),
      Make<R>("path", "", "enclosing modules and the module, separated by '/'",
              [](const R& r) { return Known(r.path); }),
      Make<R>("depth", "", "number of enclosing modules", [](const R& r) { return int64_t{r.depth}; }),
      Make<R>("occurrences", "", "number of calls; null: unknown",
              [](const R& r) {
                return r.occurrences == 0 ? std::nullopt : std::optional(static_cast<int64_t>(r.occurrences));
              }),
      Make<R>("operators", "", "number of operators that the module itself called, in all calls",
              [](const R& r) { return r.operators; }),
      Make<R>("host_ns", "ns", "time on the host, including called modules and operators",
              [](const R& r) { return r.host; }),
      Make<R>("self_host_ns", "ns",
              "time on the host without inner modules and operators; for module hierarchies: of its own "
              "operators",
              [](const R& r) { return r.self_host; }),
      Make<R>("device_ns", "ns", "time of the device activities launched in it",
              [](const R& r) { return r.device; }),
      Make<R>("self_device_ns", "ns", "time of the device activities launched in it and in no inner module",
              [](const R& r) { return r.self_device; }),
      Make<R>("mean_ns", "ns", "mean time of a call on the device, or on the host if it launched nothing",
              [](const R& r) {
                return r.occurrences == 0 ? std::nullopt
                                          : std::optional((r.device > Nanos() ? r.device : r.host) /
                                                          static_cast<int64_t>(r.occurrences));
              }),
  };
}

constexpr GroupName kModulesGroupings[] = {{"rank", GroupBy::kRank, "each rank separately"}};

// Keys of torch-tb-profiler.
constexpr Alias kModulesAliases[] = {
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
  MadeView view{GridOf({"modules", "Cost of each module."}, std::move(modules.rows), ModulesColumns()), {}};
  if (modules.source == views::ModuleSource::kNone) {
    view.notes.push_back(
        "the capture has no modules: record with torch.profiler's with_stack=True or with_modules=True, or "
        "put record_function(\"nn.Module: NAME\") around "
        "their forward()");
  } else if (modules.source == views::ModuleSource::kHierarchy) {
    view.notes.push_back(
        "modules are from PyTorch's annotations of operators: their number of calls is unknown, and times "
        "are those of operators");
  }
  return view;
}

}  // namespace

View ModulesView() {
  return {.name = "modules",
          .about = "cost of each nn.Module, as a tree",
          .text = "torch-tb-profiler's module view. The backward pass runs outside all modules.\n",
          .groupings = kModulesGroupings,
          .columns = "rank,module,occurrences,operators,host_ns,self_host_ns,device_ns,self_device_ns",
          .aliases = kModulesAliases,
          .needs_frames = [](const ViewOptions&) { return true; },
          .make = &MakeModules};
}

}  // namespace lockstep::views
