// lockstep export: a capture as somebody else's format.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_format.h"
#include "cli/analysis_output.h"
#include "cli/command.h"
#include "cli/export_formats.h"
#include "cli/progress.h"
#include "cli/values.h"
#include "common/rpc/status_macros.h"

namespace lockstep::cli {
namespace {

constexpr char kExamples[] =
    "\n"
    "Examples:\n"
    "  lockstep export ./lockstep-4711-20260301-120000 --format perfetto -o merged.pftrace\n"
    "  lockstep export ./traces --format kineto --ranks 0-3 -o kineto/\n"
    "  lockstep export ./traces --format nsys-sqlite -o job.sqlite\n"
    "  lockstep export ./traces --format scenario -o job.scenario\n";

std::string About() {
  std::string text = "Write a capture, or recorded traces, in another format.\n\n";
  for (const ExportFormat& f : ExportFormats()) absl::StrAppend(&text, absl::StrFormat("  %-12s %s\n", f.name, f.about));
  return text + kExamples;
}

struct Flags {
  std::string input, format, ranks, output;
  bool merged = false;
  bool force = false;
};

absl::StatusOr<std::vector<uint32_t>> ChooseRanks(const store::Capture& capture, const std::string& text) {
  std::vector<uint32_t> places(capture.ranks.size());
  std::iota(places.begin(), places.end(), 0u);
  if (text.empty()) return places;
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<int32_t> wanted, ParseRanks(text));
  const auto has = [&](int32_t rank) {
    return std::any_of(capture.ranks.begin(), capture.ranks.end(),
                       [&](const auto& r) { return r.rank == RankId(rank); });
  };
  std::vector<int32_t> unknown;
  std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(unknown),
               [&](int32_t rank) { return !has(rank); });
  if (!unknown.empty()) {
    return absl::NotFoundError(absl::StrCat("the capture has no rank ", absl::StrJoin(unknown, ", "),
                                            "; it has ", capture.ranks.size(),
                                            " entries, `lockstep report` lists them"));
  }
  std::erase_if(places, [&](uint32_t place) {
    return !std::binary_search(wanted.begin(), wanted.end(), capture.ranks[place].rank.value());
  });
  return places;
}

absl::StatusOr<const ExportFormat*> CheckFlags(const Flags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ExportFormat* format, FindFormat(flags.format));
  if (flags.merged && format->shape == ExportShape::kFilePerRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("--merged: ", format->name, " has one file per rank; --format perfetto has all ranks in one"));
  }
  std::error_code error;
  if (!flags.force && std::filesystem::exists(flags.output, error)) {
    return absl::AlreadyExistsError(
        absl::StrCat(flags.output, " is there already: choose another -o, or replace it with --force"));
  }
  return format;
}

// The others are as if they had not been captured.
void Keep(store::Capture& capture, const std::vector<uint32_t>& ranks) {
  if (ranks.size() == capture.ranks.size()) return;
  std::vector<store::RankData> chosen;
  for (const uint32_t place : ranks) chosen.push_back(std::move(capture.ranks[place]));
  capture.ranks = std::move(chosen);
}

ExitCode Export(const Flags& flags) {
  const auto format = CheckFlags(flags);
  if (!format.ok()) return Fail(format.status());
  auto input = FindCapture(flags.input);
  if (!input.ok()) return Fail(input.status());
  auto capture = ReadPaths({*input});
  if (!capture.ok()) return Fail(ExitCode::kUsage, std::string(capture.status().message()));
  auto ranks = ChooseRanks(*capture, flags.ranks);
  if (!ranks.ok()) return Fail(ranks.status());
  // Files of single ranks are on the clock of all; a file of several knows of no others.
  const bool whole_job = (*format)->shape == ExportShape::kFilePerRank;
  if (!whole_job) {
    Keep(*capture, *ranks);
    ranks->resize(capture->ranks.size());
    std::iota(ranks->begin(), ranks->end(), 0u);
  }
  const report::Analysis analysis = report::Analyze(*capture);
  Progress progress;
  ExportJob job{.capture = *capture, .analysis = analysis, .ranks = *ranks, .output = flags.output};
  if (progress.visible()) {
    job.progress = [&progress, shown = -1](uint64_t done, uint64_t total) mutable {
      const int percent = total == 0 ? 100 : static_cast<int>(100 * done / total);
      if (percent == shown) return;
      shown = percent;
      progress.Show(absl::StrCat("writing, ", percent, " %"));
    };
  }
  if (absl::Status s = (*format)->write(job); !s.ok()) return Fail(s);
  progress.Clear();
  Say(absl::StrCat("wrote ", flags.output));
  return ExitCode::kDone;
}

}  // namespace

void AddExport(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "export", About());
  auto flags = std::make_shared<Flags>();
  sub->add_option("CAPTURE", flags->input, "A capture's folder or id, or recorded traces")->required();
  sub->add_option("--format", flags->format, FormatNames())->required();
  sub->add_option("--ranks", flags->ranks, "Only these, as in 0-7,12");
  sub->add_flag("--merged", flags->merged, "All ranks in one file: a check, since the format decides");
  sub->add_flag("--force", flags->force, "Replace what is there");
  sub->add_option("-o,--output", flags->output, "File or folder to write")->required();
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Export(*flags); }; });
}

}  // namespace lockstep::cli
