// Implements `lockstep profile`: compares files of Python's cProfile, one per rank.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/common/analysis_output.h"
#include "cli/common/command.h"
#include "cli/common/view_output.h"
#include "formats/python/python_profile.h"
#include "views/catalog/profile_view.h"

namespace lockstep::cli {
namespace {

constexpr char kProfileAbout[] =
    "Show the cost of Python functions, ranks side by side.\n"
    "\n"
    "Reads the profiles of `lockstep trace --python-profile` in a capture, or files of cProfile's "
    "dump_stats,\n"
    "one per rank; \"rank_3.cprofile\" belongs to rank 3. A function that waits for the GPU appears costly;\n"
    "`lockstep host` shows the reasons for such waits. --sort-by and -c also accept names of pstats\n"
    "(tottime, cumtime, ncalls).\n"
    "\n"
    "Examples:\n"
    "  lockstep trace --python-profile -o slow && lockstep profile slow\n"
    "  lockstep profile result/rank_*.cprofile\n"
    "  lockstep profile result/rank_*.cprofile --sort-by cumtime --top 50\n"
    "  lockstep profile rank_0.cprofile rank_7.cprofile --by-rank --csv -o profile.csv\n";

struct ProfileFlags {
  std::vector<std::string> paths;
  bool by_rank = false;
  TableFlags table;
};

// Returns files as given, and the profiles in folders and captures.
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
    const std::vector<std::string> found = formats::PythonProfilesIn(path);
    if (found.empty()) {
      return absl::NotFoundError(
          absl::StrCat(path, " has no Python profiles: capture with `lockstep trace --python-profile`"));
    }
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

ExitCode Profile(const ProfileFlags& flags) {
  if (absl::Status s = CheckTableFlags(flags.table); !s.ok()) return Fail(s);
  const auto files = FindProfiles(flags.paths);
  if (!files.ok()) return Fail(ExitCode::kUsage, std::string(files.status().message()));
  const auto profiles = formats::ReadPythonProfiles(*files);
  if (!profiles.ok()) return Fail(profiles.status());
  const auto rows = flags.by_rank ? views::PythonRows::kEachRank : views::PythonRows::kAllRanks;
  return PrintView({.name = "profile", .columns = views::kProfileColumns, .aliases = views::ProfileAliases()},
                   flags.table, views::MakeProfile(*profiles, rows));
}

}  // namespace

void AddProfile(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "profile", kProfileAbout);
  auto flags = std::make_shared<ProfileFlags>();
  sub->add_option("CAPTURE", flags->paths, "A capture's folder or id, or files of cProfile")->required();
  sub->add_flag("--by-rank", flags->by_rank, "One row per rank");
  AddTableFlags(*sub, flags->table);
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Profile(*flags); }; });
}

}  // namespace lockstep::cli
