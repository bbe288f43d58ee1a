// lockstep profile: files of Python's cProfile, one a rank, side by side.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aggregator/trace/python_profile.h"
#include "cli/common/analysis_output.h"
#include "cli/common/command.h"
#include "cli/common/view_output.h"
#include "views/catalog/profile_view.h"

namespace lockstep::cli {
namespace {

constexpr char kAbout[] =
    "Show what Python functions cost, ranks side by side.\n"
    "\n"
    "Reads what `lockstep trace --python-profile` left in a capture, or what cProfile's dump_stats wrote, a "
    "file a rank;\n"
    "\"rank_3.cprofile\" is rank 3's. A function that waits for the GPU looks\n"
    "costly here: `lockstep host` says of a capture what such calls waited for. Names of pstats work for "
    "--sort-by and -c (tottime, cumtime, ncalls).\n"
    "\n"
    "Examples:\n"
    "  lockstep trace --python-profile -o slow && lockstep profile slow\n"
    "  lockstep profile result/rank_*.cprofile\n"
    "  lockstep profile result/rank_*.cprofile --sort-by cumtime --top 50\n"
    "  lockstep profile rank_0.cprofile rank_7.cprofile --by-rank --csv -o profile.csv\n";

struct Flags {
  std::vector<std::string> paths;
  bool by_rank = false;
  TableFlags table;
};

// Files as they are; of folders and captures what they hold.
absl::StatusOr<std::vector<std::string>> FindProfiles(const std::vector<std::string>& names) {
  auto paths = FindCaptures(names);
  if (!paths.ok()) return paths.status();
  std::vector<std::string> files;
  for (const std::string& path : *paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    const std::vector<std::string> found = trace::PythonProfilesIn(path);
    if (found.empty()) {
      return absl::NotFoundError(absl::StrCat(
          path, " holds no profiles of Python: `lockstep trace --python-profile` takes them with a capture"));
    }
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

ExitCode Profile(const Flags& flags) {
  if (absl::Status s = CheckTableFlags(flags.table); !s.ok()) return Fail(s);
  const auto files = FindProfiles(flags.paths);
  if (!files.ok()) return Fail(ExitCode::kUsage, std::string(files.status().message()));
  const auto profiles = trace::ReadPythonProfiles(*files);
  if (!profiles.ok()) return Fail(profiles.status());
  const auto rows = flags.by_rank ? views::PythonRows::kEachRank : views::PythonRows::kAllRanks;
  return PrintView(
      {.name = "profile", .columns = tables::kProfileColumns, .aliases = tables::ProfileAliases()},
      flags.table, tables::MakeProfile(*profiles, rows));
}

}  // namespace

void AddProfile(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "profile", kAbout);
  auto flags = std::make_shared<Flags>();
  sub->add_option("CAPTURE", flags->paths, "A capture's folder or id, or files of cProfile")->required();
  sub->add_flag("--by-rank", flags->by_rank, "A row for each rank");
  AddTableFlags(*sub, flags->table);
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Profile(*flags); }; });
}

}  // namespace lockstep::cli
