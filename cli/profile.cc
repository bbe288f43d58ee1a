// lockstep profile: files of Python's cProfile, one a rank, side by side.
#include <memory>
#include <string>
#include <vector>

#include "aggregator/tables/profile_view.h"
#include "aggregator/trace/python_profile.h"
#include "cli/command.h"
#include "cli/view_output.h"

namespace lockstep::cli {
namespace {

constexpr char kAbout[] =
    "Show what Python functions cost, ranks side by side.\n"
    "\n"
    "Reads what cProfile's dump_stats wrote, a file a rank; \"rank_3.cprofile\" is rank 3's. A function that waits for the GPU looks\n"
    "costly here: `lockstep host` says of a capture what such calls waited for. Names of pstats work for --sort-by and -c (tottime, cumtime, ncalls).\n"
    "\n"
    "Examples:\n"
    "  lockstep profile result/rank_*.cprofile\n"
    "  lockstep profile result/rank_*.cprofile --sort-by cumtime --top 50\n"
    "  lockstep profile rank_0.cprofile rank_7.cprofile --by-rank --csv -o profile.csv\n";

struct Flags {
  std::vector<std::string> paths;
  bool by_rank = false;
  TableFlags table;
};

ExitCode Profile(const Flags& flags) {
  if (absl::Status s = CheckTableFlags(flags.table); !s.ok()) return Fail(s);
  const auto profiles = trace::ReadPythonProfiles(flags.paths);
  if (!profiles.ok()) return Fail(profiles.status());
  const auto rows = flags.by_rank ? views::PythonRows::kEachRank : views::PythonRows::kAllRanks;
  return PrintView({.name = "profile", .columns = tables::kProfileColumns, .aliases = tables::ProfileAliases()}, flags.table,
                   tables::MakeProfile(*profiles, rows));
}

}  // namespace

void AddProfile(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "profile", kAbout);
  auto flags = std::make_shared<Flags>();
  sub->add_option("FILE", flags->paths, "Files of cProfile")->required();
  sub->add_flag("--by-rank", flags->by_rank, "A row for each rank");
  AddTableFlags(*sub, flags->table);
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Profile(*flags); }; });
}

}  // namespace lockstep::cli
