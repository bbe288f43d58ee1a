// Implements `lockstep profile`: compares files of Python's cProfile, one per rank.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files/read_files.h"
#include "capture/store/records_manifest.h"
#include "cli/common/analysis_output.h"
#include "cli/common/command.h"
#include "cli/common/view_output.h"
#include "formats/python/python_profile.h"
#include "report/text/fold_notes.h"
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

// Returns the capture's notes on ranks whose profile was requested and is missing.
std::vector<std::string> NotesOnMissing(const std::string& capture) {
  const auto json = FileText(capture + "/records/manifest.json");
  if (!json) return {};
  const auto manifest = capture::ParseManifest(*json);
  if (!manifest.ok()) return {};
  std::vector<std::string> notes = manifest->notes;
  std::erase_if(notes, [](const std::string& note) { return !note.starts_with("no Python profile of "); });
  return notes;
}

absl::Status NoProfiles(const std::string& path, const std::vector<std::string>& missing) {
  if (missing.empty()) {
    return absl::NotFoundError(
        absl::StrCat(path, " has no Python profiles: capture with `lockstep trace --python-profile`"));
  }
  const size_t more = missing.size() - 1;
  return absl::NotFoundError(absl::StrCat(
      path, " has no Python profiles: ", missing[0],
      more == 0
          ? ""
          : absl::StrCat("; the report's notes name ", more, more == 1 ? " more rank" : " more ranks")));
}

// Returns files as given, and the profiles in folders and captures. Adds notes on missing ones to `notes`.
absl::StatusOr<std::vector<std::string>> FindProfiles(const std::vector<std::string>& names,
                                                      std::vector<std::string>& notes) {
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
    const std::vector<std::string> missing = NotesOnMissing(path);
    if (found.empty()) return NoProfiles(path, missing);
    notes.insert(notes.end(), missing.begin(), missing.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

ExitCode Profile(const ProfileFlags& flags) {
  if (absl::Status s = CheckTableFlags(flags.table); !s.ok()) return Fail(s);
  std::vector<std::string> notes;
  const auto files = FindProfiles(flags.paths, notes);
  if (!files.ok()) return Fail(ExitCode::kUsage, std::string(files.status().message()));
  const auto profiles = formats::ReadPythonProfiles(*files);
  if (!profiles.ok()) return Fail(profiles.status());
  const auto rows = flags.by_rank ? views::PythonRows::kEachRank : views::PythonRows::kAllRanks;
  views::MadeView made = views::MakeProfile(*profiles, rows);
  const std::vector<std::string> folded = report::FoldNotes(notes);
  made.notes.insert(made.notes.end(), folded.begin(), folded.end());
  return PrintView({.name = "profile", .columns = views::kProfileColumns, .aliases = views::ProfileAliases()},
                   flags.table, std::move(made));
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
