#include "cli/common/export_formats.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <numeric>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/files/file_sink.h"
#include "base/mutex.h"
#include "base/rpc/status_macros.h"
#include "base/settings/nearest_word.h"
#include "formats/common/write_progress.h"
#include "formats/kineto/kineto_writer.h"
#include "formats/nsys/nsys_writer.h"
#include "formats/otf2/otf2_writer.h"
#include "formats/perfetto/perfetto_writer.h"
#include "formats/scenario/scenario_writer.h"
#include "views/tables/write_tables.h"

namespace lockstep::cli {
namespace {

bool IsCompressed(const std::string& path) { return absl::EndsWith(path, ".gz"); }

absl::StatusOr<std::unique_ptr<ByteSink>> OpenSink(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<ByteSink> sink, OpenAtomicFile(path));
  return IsCompressed(path) ? GzipSink(std::move(sink)) : std::move(sink);
}

absl::Status WriteKinetoFile(const ExportJob& job, uint32_t rank, const std::string& path,
                             const formats::WriteProgress& progress) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSink> sink, OpenSink(path));
  formats::KinetoOptions options{.matches = &job.analysis.matches, .progress = progress};
  if (const auto& steps = job.analysis.steps.ranks[rank].steps; !steps.empty()) {
    options.annotated = {steps.front().host.start, steps.back().host.end};
  }
  LOCKSTEP_RETURN_IF_ERROR(formats::WriteKineto(job.capture, rank, job.analysis.clock, *sink, options));
  return sink->Finish();
}

// Combines the progress of files that are written in parallel.
class SharedProgress {
 public:
  explicit SharedProgress(const ExportJob& job) : job_(job), written_(job.ranks.size()) {}

  void Set(size_t place, double part) {
    MutexLock lock(&mutex_);
    written_[place] = part;
    if (!job_.progress) return;
    const double sum = std::accumulate(written_.begin(), written_.end(), 0.0);
    job_.progress(static_cast<uint64_t>(sum * kParts), written_.size() * kParts);
  }
  formats::WriteProgress Of(size_t place) {
    return [this, place](uint64_t done, uint64_t total) {
      Set(place, static_cast<double>(done) / static_cast<double>(total));
    };
  }

 private:
  static constexpr uint64_t kParts = 1000;  // parts per file
  const ExportJob& job_;
  Mutex mutex_;
  std::vector<double> written_ ABSL_GUARDED_BY(mutex_);  // fraction of each file, 0 to 1
};

// Uses several threads, because compression is most of the work and the files are independent.
absl::Status WriteKinetoFolder(const ExportJob& job) {
  std::error_code error;
  std::filesystem::create_directories(job.output, error);
  if (error)
    return absl::PermissionDeniedError(absl::StrCat("cannot create ", job.output, ": ", error.message()));
  const size_t ranks = job.ranks.size();
  std::atomic<size_t> next{0};
  SharedProgress progress(job);
  std::vector<absl::Status> results(ranks);
  const auto work = [&] {
    for (size_t i = next++; i < ranks; i = next++) {
      const uint32_t rank = job.ranks[i];
      results[i] = WriteKinetoFile(job, rank,
                                   absl::StrCat(job.output, "/", formats::KinetoFileName(job.capture, rank)),
                                   progress.Of(i));
      progress.Set(i, 1);
    }
  };
  std::vector<std::jthread> helpers;
  const size_t threads = std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), ranks);
  for (size_t t = 1; t < threads; ++t) helpers.emplace_back(work);
  work();
  helpers.clear();
  for (const absl::Status& result : results) LOCKSTEP_RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

absl::Status WriteKineto(const ExportJob& job) {
  if (!absl::EndsWith(job.output, ".json") && !IsCompressed(job.output)) return WriteKinetoFolder(job);
  if (job.ranks.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("-o ", job.output, " is one file but ", job.ranks.size(),
                     " ranks are chosen: name a folder, or one rank with --ranks"));
  }
  return WriteKinetoFile(job, job.ranks[0], job.output, job.progress);
}

// Marks the steps in which the finding costs time, or the whole window without steps.
formats::TraceFinding FindingOf(const report::StragglerRow& row, std::span<const analysis::StepSpan> steps,
                                const formats::TraceFinding& window) {
  formats::TraceFinding finding = window;
  const std::string who = row.ranks.empty()
                              ? row.kind
                              : absl::StrCat(row.ranks.size() == 1 ? "rank " : "ranks ",
                                             absl::StrJoin(row.ranks, ", ", [](std::string* out, RankId r) {
                                               absl::StrAppend(out, r.value());
                                             }));
  finding.title =
      absl::StrCat(who, " · ", row.cause, " · ",
                   absl::StrFormat("%.3g ms lost per step", row.lost_ns_per_step / 1e6), " · ", row.verdict);
  finding.evidence = row.evidence;
  if (!row.action.empty()) finding.evidence.push_back(row.action);
  for (const analysis::StepSpan& step : steps) {
    if (row.since_step == step.name) finding.start = step.start;
    if (row.until_step == step.name) finding.end = std::max(step.end, finding.start);
  }
  return finding;
}

std::vector<formats::TraceFinding> FindingsOf(const ExportJob& job) {
  formats::TraceFinding window{.start = JobTime::Max(), .end = JobTime::Min()};
  for (const capture::RankData& rank : job.capture.ranks) {
    window.start = std::min(window.start, job.analysis.clock.ToJob(rank.host, rank.window.start));
    window.end = std::max(window.end, job.analysis.clock.ToJob(rank.host, rank.window.end));
  }
  std::vector<formats::TraceFinding> findings;
  if (window.start >= window.end) return findings;
  const std::vector<analysis::StepSpan> steps =
      analysis::SpansOf(job.capture, job.analysis.clock, job.analysis.steps);
  for (const report::StragglerRow& row : job.analysis.report.stragglers)
    findings.push_back(FindingOf(row, steps, window));
  return findings;
}

// Writes an archive if the file's name says so.
absl::Status WritePerfetto(const ExportJob& job) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSink> sink, OpenSink(job.output));
  const std::vector<formats::TraceFinding> findings = FindingsOf(job);
  const formats::PerfettoOptions options{.findings = findings, .progress = job.progress};
  const auto write =
      absl::EndsWith(job.output, ".tar") ? formats::WritePerfettoArchive : formats::WritePerfetto;
  LOCKSTEP_RETURN_IF_ERROR(write(job.capture, job.analysis.matches, job.analysis.clock, *sink, options));
  return sink->Finish();
}

absl::Status WriteScenario(const ExportJob& job) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSink> sink, OpenSink(job.output));
  LOCKSTEP_RETURN_IF_ERROR(
      formats::WriteScenario(job.capture, job.analysis.matches, job.analysis.clock, *sink));
  return sink->Finish();
}

absl::Status WriteNsysSqlite(const ExportJob& job) {
  return formats::WriteNsysSqlite(job.capture, job.analysis.clock, job.output, job.progress);
}

absl::Status WriteOtf2(const ExportJob& job) {
  return formats::WriteOtf2(job.capture, job.analysis.matches, job.analysis.clock, job.output, job.progress);
}

absl::Status WriteCsv(const ExportJob& job) {
  return views::WriteTables({job.capture, job.analysis}, views::TableFormat::kCsv, job.output, job.progress);
}

absl::Status WriteParquet(const ExportJob& job) {
  if (job.partition) return views::WritePartitions({job.capture, job.analysis}, job.output, job.progress);
  return views::WriteTables({job.capture, job.analysis}, views::TableFormat::kParquet, job.output,
                            job.progress);
}

constexpr ExportFormat kFormats[] = {
    {"kineto", "a folder with one Chrome JSON per rank: HTA, TensorBoard's PyTorch plugin, chrome://tracing",
     ExportShape::kFilePerRank, "traces", WriteKineto},
    {"perfetto",
     "one file with all ranks on one clock: ui.perfetto.dev; -o NAME.tar: an archive of per-rank traces",
     ExportShape::kFile, "merged.pftrace", WritePerfetto},
    {"nsys-sqlite", "one database with the tables of Nsight Systems' export, for its scripts",
     ExportShape::kFile, "nsys.sqlite", WriteNsysSqlite},
    {"scenario", "a file that lockstep-sim-rank replays without a GPU", ExportShape::kFile, "job.scenario",
     WriteScenario},
    {"otf2", "an OTF2 archive of all ranks, a folder: Vampir, Scalasca, otf2-print", ExportShape::kFolder,
     "otf2", WriteOtf2},
    {"csv", "one file per table of the report and the capture; -o TABLE.csv[.gz]: one table",
     ExportShape::kFolder, "csv", WriteCsv},
    {"parquet", "the same for DuckDB, pandas, Spark, ClickHouse; -o TABLE.parquet: one table",
     ExportShape::kFolder, "parquet", WriteParquet},
};

}  // namespace

std::span<const ExportFormat> ExportFormats() { return kFormats; }

std::vector<std::string> FormatNames() {
  std::vector<std::string> names;
  for (const ExportFormat& format : kFormats) names.emplace_back(format.name);
  return names;
}

absl::StatusOr<const ExportFormat*> FindFormat(std::string_view name) {
  for (const ExportFormat& format : kFormats) {
    if (name == format.name) return &format;
  }
  const std::vector<std::string> names = FormatNames();
  return absl::InvalidArgumentError(absl::StrCat("unknown format \"", std::string(name), "\"; choose from ",
                                                 absl::StrJoin(names, ", "),
                                                 settings::DidYouMean(name, names)));
}

absl::StatusOr<std::vector<const ExportFormat*>> ParseFormats(std::string_view text) {
  std::vector<const ExportFormat*> formats;
  if (text == "none") return formats;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(std::string(text), ','))) {
    const auto format = FindFormat(name);
    if (!format.ok())
      return absl::InvalidArgumentError(absl::StrCat("--formats: ", format.status().message(), ", and none"));
    if (std::find(formats.begin(), formats.end(), *format) == formats.end()) formats.push_back(*format);
  }
  return formats;
}

}  // namespace lockstep::cli
