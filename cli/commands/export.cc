// Implements `lockstep export`: writes a capture in a foreign format.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/gains/fit_memory.h"
#include "base/files/open_file_limit.h"
#include "base/rpc/status_macros.h"
#include "cli/commands/memory_limit.h"
#include "cli/common/analysis_output.h"
#include "cli/common/choose_ranks.h"
#include "cli/common/choose_span.h"
#include "cli/common/command.h"
#include "cli/common/export_formats.h"
#include "formats/common/read_options.h"
#include "views/tables/write_tables.h"

namespace lockstep::cli {
namespace {

constexpr char kExamples[] =
    "\n"
    "Examples:\n"
    "  lockstep export ./lockstep-4711-20260301-120000 --format perfetto -o merged.pftrace\n"
    "  lockstep export ./traces --format kineto --ranks 0-3 -o kineto/\n"
    "  lockstep export ./traces --format nsys-sqlite -o job.sqlite\n"
    "  lockstep export ./traces --format scenario -o job.scenario\n"
    "  lockstep export ./lockstep-4711-20260301-120000 --format parquet --partition -o lake/\n";

std::string About() {
  std::string text = "Write a capture, or recorded traces, in another format.\n\n";
  for (const ExportFormat& f : ExportFormats())
    absl::StrAppend(&text, absl::StrFormat("  %-12s %s\n", f.name, f.about));
  return text + kExamples;
}

struct ExportFlags {
  std::string input, format, ranks, output, span;
  bool merged = false;
  bool partition = false;
  bool force = false;
  uint64_t memory_bytes = 0;
};

absl::StatusOr<const ExportFormat*> CheckFlags(const ExportFlags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ExportFormat* format, FindFormat(flags.format));
  if (flags.merged && format->shape == ExportShape::kFilePerRank) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--merged: ", format->name, " has one file per rank; --format perfetto has all ranks in one"));
  }
  if (flags.partition && std::string_view(format->name) != "parquet")
    return absl::InvalidArgumentError(
        absl::StrCat("--partition: ", format->name, " has no partitions; use --format parquet"));
  std::error_code error;
  if (!flags.force && !flags.partition && std::filesystem::exists(flags.output, error)) {
    return absl::AlreadyExistsError(
        absl::StrCat(flags.output, " already exists: choose another -o, or replace it with --force"));
  }
  return format;
}

// Several captures may be in one folder, so only this capture's own partitions are replaced.
absl::Status PrepareOutput(const ExportFlags& flags, const std::string& capture) {
  if (!flags.partition) return absl::OkStatus();
  RaiseOpenFileLimit();  // each rank has an open file
  for (const std::string& folder : views::PartitionFolders(flags.output, capture)) {
    std::error_code error;
    if (!std::filesystem::exists(folder, error)) continue;
    if (!flags.force) {
      return absl::AlreadyExistsError(
          absl::StrCat(folder, " already exists: choose another -o, or replace this capture with --force"));
    }
    if (absl::Status s = views::RemovePartition(folder); !s.ok()) return s;
  }
  return absl::OkStatus();
}

ExitCode Export(const ExportFlags& flags) {
  const auto format = CheckFlags(flags);
  if (!format.ok()) return Fail(format.status());
  auto input = FindCapture(flags.input);
  if (!input.ok()) return Fail(input.status());
  const uint64_t memory = MemoryLimitOf(flags.memory_bytes);
  LimitMemory(memory);
  // A part of the rows would not be the capture.
  const analysis::MemoryLimit limit{.bytes = memory, .may_shorten = analysis::MayShorten::kNo};
  capture::RowOverflow overflow = OverflowOf(limit);
  Progress progress;
  auto capture = ReadPaths({*input}, progress, formats::HostDetail::kUnions, flags.span, overflow);
  if (!capture.ok()) return Fail(ExitCode::kUsage, std::string(capture.status().message()));
  auto ranks = ChooseRanks(*capture, flags.ranks);
  if (!ranks.ok()) {
    progress.Clear();
    return Fail(ranks.status());
  }
  // A file per rank uses the job's clock, which needs all ranks. A format with all ranks in one file writes
  // the whole capture, so the others are removed.
  const bool whole_job = (*format)->shape == ExportShape::kFilePerRank;
  if (!whole_job) {
    KeepRanks(*capture, *ranks);
    ranks->resize(capture->ranks.size());
    std::iota(ranks->begin(), ranks->end(), 0u);
  }
  const auto fit = FitAnalysis(limit, overflow, *capture, progress);
  if (!fit.ok()) return Fail(fit.status());
  const report::Analysis analysis =
      report::Analyze(*capture, {.threads = fit->threads, .disk = fit->disk.get()});
  if (absl::Status s = PrepareOutput(flags, capture->id); !s.ok()) {
    progress.Clear();
    return Fail(s);
  }
  ExportJob job{.capture = *capture,
                .analysis = analysis,
                .ranks = *ranks,
                .output = flags.output,
                .partition = flags.partition};
  if (progress.visible()) {
    progress.Show("writing");
    job.progress = [&progress](uint64_t done, uint64_t total) {
      progress.Show(absl::StrCat("writing, ", Percent(done, total), " %"));
    };
  }
  const absl::Status written = (*format)->write(job);
  progress.Clear();
  if (!written.ok()) return Fail(written);
  PrintMessage(absl::StrCat("wrote ", flags.output));
  return ExitCode::kDone;
}

}  // namespace

void AddExport(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "export", About());
  auto flags = std::make_shared<ExportFlags>();
  sub->add_option("CAPTURE", flags->input, "A capture's folder or id, or recorded traces")->required();
  sub->add_option("--format", flags->format, "The format to write")
      ->required()
      ->type_name(OneOf(FormatNames()));
  sub->add_option("--ranks", flags->ranks, "Only these ranks, as in 0-7,12");
  AddSpanFlag(*sub, flags->span);
  AddMemoryFlag(*sub, flags->memory_bytes);
  sub->add_flag("--merged", flags->merged, "Fail unless the format has all ranks in one file");
  sub->add_flag("--partition", flags->partition,
                "parquet: one folder for many captures, TABLE/capture=ID/rank=N/data.parquet");
  sub->add_flag("--force", flags->force, "Replace an existing output");
  sub->add_option("-o,--output", flags->output, "File or folder to write")->required()->type_name(kPathValue);
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Export(*flags); }; });
}

}  // namespace lockstep::cli
