#include "cli/common/analysis_output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "aggregator/server.h"
#include "base/files/file_sink.h"
#include "base/rpc/status_macros.h"
#include "capture/model/held_bytes.h"
#include "capture/store/records_manifest.h"
#include "cli/common/choose_span.h"
#include "cli/common/command.h"
#include "formats/common/read_options.h"
#include "formats/input/read_input.h"
#include "web/page/page.h"

namespace lockstep::cli {
namespace {

// Writes whole documents from memory. That is cheap beside the capture, and a broken pipe cannot leave half a
// document in a file.
class StdoutSink final : public ByteSink {
 public:
  absl::Status Append(std::string_view bytes) override {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size()) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, "cannot write to stdout");
  }
  absl::Status Finish() override {
    if (std::fflush(stdout) == 0) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, "cannot write to stdout");
  }
};

absl::StatusOr<std::unique_ptr<ByteSink>> OpenOutput(const std::string& path) {
  if (path.empty() || path == "-") return std::make_unique<StdoutSink>();
  return OpenAtomicFile(path);
}

}  // namespace

bool IsTerminal(const ReportFlags& flags) { return flags.output.empty() && ::isatty(STDOUT_FILENO) == 1; }

report::TextOptions TextFor(const ReportFlags& flags) {
  report::TextOptions options;
  options.top = flags.top;
  options.source = flags.source;
  options.has_traces = flags.has_traces;
  const bool terminal = IsTerminal(flags);
  const char* no_color = std::getenv("NO_COLOR");
  if (!terminal) options.lines = 0;
  options.color = terminal && (no_color == nullptr || no_color[0] == '\0');
  winsize size = {};
  if (terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    constexpr int kNarrowest = 60, kWidest = 160;
    options.width = std::clamp<int>(size.ws_col, kNarrowest, kWidest);
  }
  return options;
}

void AddReportFlags(CLI::App& app, ReportFlags& flags) {
  app.add_option("--format", flags.format, "text, json, or html (one file for a browser)")
      ->type_name(OneOf({"text", "json", "html"}))
      ->capture_default_str();
  app.add_option("-o,--output", flags.output, "File to write instead of stdout")->type_name(kFileValue);
  app.add_option("--top", flags.top, "Maximum rows of each list in the text")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_flag("--exit-code", flags.exit_code,
               "Exit with code 3 if there is a straggler with verdict sure or likely");
}

absl::Status CheckReportFlags(const ReportFlags& flags) {
  if (flags.format == "text" || flags.format == "json" || flags.format == "html") return absl::OkStatus();
  if (flags.format == "csv") {
    return absl::UnimplementedError(
        "--format csv: a report has many tables; use lockstep export CAPTURE --format csv -o FOLDER");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--format ", flags.format, " is unknown; choose text, json or html"));
}

const report::StragglerRow* CostliestStraggler(const report::Report& report) {
  const auto found = std::find_if(
      report.stragglers.begin(), report.stragglers.end(),
      [](const report::StragglerRow& s) { return s.verdict == "sure" || s.verdict == "likely"; });
  return found == report.stragglers.end() ? nullptr : &*found;
}

ExitCode PrintText(const std::string& text, const ReportFlags& flags) {
  auto sink = OpenOutput(flags.output);
  if (!sink.ok()) return Fail(ExitCode::kFailed, std::string(sink.status().message()));
  absl::Status written = (*sink)->Append(text);
  if (written.ok()) written = (*sink)->Finish();
  if (!written.ok()) return Fail(ExitCode::kFailed, std::string(written.message()));
  return ExitCode::kDone;
}

formats::HostDetail DetailFor(const ReportFlags& flags) {
  return flags.format == "html" ? formats::HostDetail::kFrames : formats::HostDetail::kUnions;
}

ExitCode PrintReport(const capture::Capture& capture, const report::Analysis& analysis,
                     const ReportFlags& flags) {
  const report::Report& report = analysis.report;
  auto sink = OpenOutput(flags.output);
  if (!sink.ok()) return Fail(ExitCode::kFailed, std::string(sink.status().message()));
  absl::Status written;
  if (flags.format == "json") {
    written = report::WriteJson(report, **sink);
  } else if (flags.format == "html") {
    written = web::WritePage({.capture = capture, .analysis = analysis, .source = flags.source}, **sink);
  } else {
    written = (*sink)->Append(report::RenderText(report, TextFor(flags)));
  }
  if (written.ok()) written = (*sink)->Finish();
  if (!written.ok()) return Fail(ExitCode::kFailed, std::string(written.message()));
  if (!report.capture.incomplete.empty()) return ExitCode::kPartial;
  return flags.exit_code && CostliestStraggler(report) != nullptr ? ExitCode::kStraggler : ExitCode::kDone;
}

bool HasTraces(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(std::filesystem::path(path) / "merged.pftrace", error);
}

absl::StatusOr<capture::Capture> ReadPaths(const std::vector<std::string>& paths, Progress& progress,
                                           formats::HostDetail host, const std::string& span,
                                           capture::RowOverflow& overflow) {
  LOCKSTEP_ASSIGN_OR_RETURN(const formats::SpanChoice choice, ParseSpan(span));
  formats::ReadOptions options{.host = host, .span = choice, .overflow = &overflow};
  options.chose_span = [&progress](const std::string& note) {
    progress.Clear();
    PrintMessage(note);
  };
  if (progress.visible()) {
    options.progress = [&progress](uint64_t done, uint64_t total) {
      progress.Show(
          absl::StrCat("reading ", done >> 20, " of ", total >> 20, " MiB, ", Percent(done, total), " %"));
    };
  }
  auto capture = formats::ReadInput(paths, options);
  if (capture.ok()) {
    progress.Show("analysing");
  } else {
    progress.Clear();
  }
  return capture;
}

std::vector<std::string> DiskFolders() {
  std::vector<std::string> folders;
  const char* const folder = std::getenv("TMPDIR");
  if (folder != nullptr && *folder != '\0') folders.emplace_back(folder);
  folders.insert(folders.end(), {"/tmp", "/var/tmp"});
  return folders;
}

capture::RowOverflow OverflowOf(const analysis::MemoryLimit& limit) {
  return capture::RowOverflow(analysis::FitsWithoutDisk(limit), DiskFolders());
}

absl::StatusOr<analysis::MemoryFit> FitAnalysis(analysis::MemoryLimit limit, capture::RowOverflow& overflow,
                                                capture::Capture& capture, Progress& progress) {
  limit.disk_folders = DiskFolders();
  auto fit = analysis::FitIntoMemory(limit, capture, overflow.TakeDisk());
  if (!fit.ok()) progress.Clear();
  return fit;
}

absl::StatusOr<std::unique_ptr<capture::DiskRows>> FitRows(analysis::MemoryLimit limit,
                                                           capture::RowOverflow& overflow,
                                                           capture::Capture& capture, Progress& progress) {
  limit.disk_folders = DiskFolders();
  auto disk = analysis::FitRowsIntoMemory(limit, capture, overflow.TakeDisk());
  if (!disk.ok()) progress.Clear();
  return disk;
}

uint64_t BytesInMemory(const capture::Capture& capture, const capture::DiskRows* disk) {
  const capture::HeldBytes held = capture::HeldBytesOf(capture);
  const uint64_t all = held.rows + held.other;
  return all - std::min(all, disk == nullptr ? 0 : disk->bytes());
}

absl::StatusOr<std::string> FindCapture(const std::string& name) {
  std::error_code error;
  if (std::filesystem::exists(name, error)) return name;
  const std::string folder =
      absl::StrCat(aggregator::CapturesFolder(aggregator::DefaultStateDir()), "/", name);
  if (capture::IsPlainFileName(name) && std::filesystem::is_directory(folder, error)) return folder;
  return absl::NotFoundError(
      absl::StrCat("no capture ", name, ": it is neither a folder here nor an id in ",
                   aggregator::CapturesFolder(aggregator::DefaultStateDir()),
                   "; name a folder that lockstep trace wrote, or give --aggregator HOST:PORT"));
}

absl::StatusOr<std::vector<std::string>> FindCaptures(const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    auto path = FindCapture(name);
    if (!path.ok()) return path.status();
    found.push_back(*std::move(path));
  }
  return found;
}

absl::StatusOr<std::string> FindOrFetchCapture(const std::string& name, const AggregatorFlags& aggregator,
                                               std::unique_ptr<TemporaryFolder>& fetched) {
  absl::StatusOr<std::string> folder = FindCapture(name);
  if (folder.ok() || !aggregator.given()) return folder;
  auto temporary = FetchToTemporary(aggregator, name);
  if (!temporary.ok()) return temporary.status();
  fetched = *std::move(temporary);
  return fetched->path() + "/capture";
}

}  // namespace lockstep::cli
