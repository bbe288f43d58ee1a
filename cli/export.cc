// lockstep export: a capture as somebody else's format.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aggregator/store/file_sink.h"
#include "aggregator/trace/writers.h"
#include "cli/analysis_output.h"
#include "cli/capture_folder.h"
#include "cli/command.h"
#include "cli/output_name.h"
#include "cli/values.h"
#include "common/rpc/status_macros.h"

namespace lockstep::cli {
namespace {

constexpr char kAbout[] =
    "Write a capture, or recorded traces, in another format.\n"
    "\n"
    "  kineto     one Chrome JSON per rank, into a folder: HTA, TensorBoard's PyTorch plugin, "
    "chrome://tracing\n"
    "  perfetto   one file with all ranks on one clock: ui.perfetto.dev\n"
    "  scenario   what lockstep-sim-rank replays without a GPU\n"
    "\n"
    "Examples:\n"
    "  lockstep export ./lockstep-4711-20260301-120000 --format perfetto -o merged.pftrace\n"
    "  lockstep export ./traces --format kineto --ranks 0-3 -o kineto/\n"
    "  lockstep export ./traces --format scenario -o job.scenario\n";

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

absl::Status Write(const store::Capture& capture, const report::Analysis& analysis, const Flags& flags,
                   const std::vector<uint32_t>& ranks) {
  if (flags.format == "kineto" && !absl::EndsWith(flags.output, ".json") &&
      !absl::EndsWith(flags.output, ".gz")) {
    return WriteKinetoFiles(capture, analysis, ranks, flags.output);
  }
  if (flags.format == "kineto" && ranks.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("-o ", flags.output, " is one file and ", ranks.size(),
                     " ranks are chosen: name a folder, or one rank with --ranks"));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<store::ByteSink> sink, store::OpenAtomicFile(flags.output));
  if (absl::EndsWith(flags.output, ".gz")) sink = store::GzipSink(std::move(sink));
  if (flags.format == "kineto") {
    LOCKSTEP_RETURN_IF_ERROR(trace::WriteKineto(capture, ranks[0], analysis.clock, *sink));
  } else if (flags.format == "perfetto") {
    LOCKSTEP_RETURN_IF_ERROR(trace::WritePerfetto(capture, analysis.matches, analysis.clock, *sink));
  } else {
    LOCKSTEP_RETURN_IF_ERROR(trace::WriteScenario(capture, analysis.matches, analysis.clock, *sink));
  }
  return sink->Finish();
}

absl::Status CheckFlags(const Flags& flags) {
  const std::vector<std::string> later = {"nsys-sqlite", "otf2", "csv", "parquet"};
  if (std::find(later.begin(), later.end(), flags.format) != later.end()) {
    return absl::UnimplementedError(absl::StrCat(
        "--format ", flags.format, " is not available in this version; kineto, perfetto and scenario are"));
  }
  if (flags.format != "kineto" && flags.format != "perfetto" && flags.format != "scenario") {
    return absl::InvalidArgumentError(
        absl::StrCat("--format ", flags.format, " is not known; choose kineto, perfetto or scenario"));
  }
  if (flags.merged && flags.format == "kineto") {
    return absl::InvalidArgumentError(
        "--merged: kineto has one file per rank; --format perfetto has all ranks in one");
  }
  std::error_code error;
  if (!flags.force && std::filesystem::exists(flags.output, error)) {
    return absl::AlreadyExistsError(
        absl::StrCat(flags.output, " is there already: choose another -o, or replace it with --force"));
  }
  return absl::OkStatus();
}

ExitCode Export(const Flags& flags) {
  if (absl::Status s = CheckFlags(flags); !s.ok()) return Fail(s);
  auto input = FindCapture(flags.input);
  if (!input.ok()) return Fail(input.status());
  auto capture = ReadPaths({*input});
  if (!capture.ok()) return Fail(ExitCode::kUsage, std::string(capture.status().message()));
  auto ranks = ChooseRanks(*capture, flags.ranks);
  if (!ranks.ok()) return Fail(ranks.status());
  if (flags.format != "kineto" && ranks->size() < capture->ranks.size()) {
    // One file of several ranks: the others are as if they had not been captured.
    std::vector<store::RankData> chosen;
    for (const uint32_t place : *ranks) chosen.push_back(std::move(capture->ranks[place]));
    capture->ranks = std::move(chosen);
  }
  const report::Analysis analysis = report::Analyze(*capture);
  if (absl::Status s = Write(*capture, analysis, flags, *ranks); !s.ok()) return Fail(s);
  Say(absl::StrCat("wrote ", flags.output));
  return ExitCode::kDone;
}

}  // namespace

void AddExport(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "export", kAbout);
  auto flags = std::make_shared<Flags>();
  sub->add_option("CAPTURE", flags->input, "A capture's folder or id, or recorded traces")->required();
  sub->add_option("--format", flags->format, "kineto, perfetto or scenario")->required();
  sub->add_option("--ranks", flags->ranks, "Only these, as in 0-7,12");
  sub->add_flag("--merged", flags->merged, "All ranks in one file, as perfetto and scenario always do");
  sub->add_flag("--force", flags->force, "Replace what is there");
  sub->add_option("-o,--output", flags->output, "File or folder to write")->required();
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Export(*flags); }; });
}

}  // namespace lockstep::cli
