#include "formats/nvprof/nvprof_reader.h"

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "formats/common/foreign_files.h"
#include "formats/common/text_lines.h"
#include "formats/nvprof/nvprof_rows.h"
#include "formats/nvprof/nvprof_table.h"

namespace lockstep::formats {
namespace {

constexpr size_t kLongestLine = size_t{1} << 20;

// The process, as the lines before the table name it.
struct Process {
  int32_t pid = 0;
  std::string program;
};

// "==4711== NVPROF is profiling process 4711, command: python train.py"
void ReadPreamble(std::string_view line, Process& process) {
  constexpr std::string_view kProfiling = "== NVPROF is profiling process ";
  constexpr std::string_view kCommand = ", command: ";
  size_t at = line.find(kProfiling);
  if (at == std::string_view::npos) return;
  std::from_chars(line.data() + at + kProfiling.size(), line.data() + line.size(), process.pid);
  at = line.find(kCommand, at);
  if (at == std::string_view::npos) return;
  const std::string_view command = line.substr(at + kCommand.size());
  process.program = command.substr(0, command.find(' '));
}

class Reader {
 public:
  Reader(ByteSource& source, const TraceFile& from, const std::function<void(uint64_t)>& progress)
      : source_(source), from_(from), lines_(source, kLongestLine, progress) {}

  absl::StatusOr<capture::Capture> Read() {
    if (absl::Status s = ReadUntilTable(); !s.ok()) return s;
    if (absl::Status s = ReadTable(); !s.ok()) return s;
    return Take();
  }

 private:
  absl::Status Wrong(std::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(from_.path, " line ", lines_.number(), ": ", std::string(what)));
  }

  // The end of the text is an error as `what` says.
  absl::Status Ended(TextLines::Result result, std::string_view what) {
    if (result == TextLines::Result::kTooLong)
      return Wrong("the line is longer than any of nvprof; the file is not a trace of nvprof");
    if (result == TextLines::Result::kDamaged)
      return Wrong(
          absl::StrCat("the file is truncated here: ", std::string(source_.damage()), "; copy it again"));
    return absl::InvalidArgumentError(absl::StrCat(from_.path, std::string(what)));
  }

  // The job's own output may be among the lines before the table.
  absl::Status ReadUntilTable() {
    std::string_view line;
    while (true) {
      if (const auto next = lines_.Next(line); next != TextLines::Result::kLine)
        return Ended(next, WhyNotNvprofTrace());
      ReadPreamble(line, process_);
      if (NvprofTable::IsHeader(line)) break;
    }
    if (!table_.ReadHeader(line)) return Wrong(table_.error());
    if (const auto next = lines_.Next(line); next != TextLines::Result::kLine)
      return Ended(next, " ends before its row of units; copy it again");
    return table_.ReadUnits(line) ? absl::OkStatus() : Wrong(table_.error());
  }

  absl::Status ReadTable() {
    std::string_view line;
    auto next = lines_.Next(line);
    for (; next == TextLines::Result::kLine; next = lines_.Next(line)) {
      if (line.empty() || line.starts_with("==")) continue;
      if (NvprofTable::IsHeader(line))
        return Wrong(
            "a second trace begins here; give each process a file of its own: --log-file "
            "trace-%p.csv");
      if (table_.ReadRow(line) && rows_.Add()) continue;
      if (!lines_.unfinished()) return Wrong(table_.error());
      cut_off_ = lines_.number();
    }
    return next == TextLines::Result::kEnd ? absl::OkStatus() : Ended(next, "");
  }

  absl::StatusOr<capture::Capture> Take() {
    std::vector<capture::RankData> entries = rows_.Take();
    if (entries.empty()) return Ended(TextLines::Result::kEnd, WhyNotNvprofTrace());
    const std::optional<RankId> rank = RankOf(from_);
    capture_.hosts.push_back({.id = from_.path, .name = ""});
    for (capture::RankData& entry : entries) {
      entry.rank = rank.value_or(RankId(0));
      entry.rank_source = rank ? "file name" : "position";
      entry.host = 0;
      entry.pid = process_.pid;
      entry.program = process_.program;
      entry.source_file = from_.path;
      capture_.ranks.push_back(std::move(entry));
    }
    if (cut_off_ != 0) {
      capture::RankData& first = capture_.ranks[0];
      first.losses.push_back({"import", "", 1,
                              absl::StrCat(from_.path, " line ", cut_off_, ": the text is truncated here"),
                              first.window.start, first.window.end});
    }
    AddNotes();
    return std::move(capture_);
  }

  void AddNotes() {
    const auto note = [&](std::string_view what) {
      capture_.notes.push_back(absl::StrCat(from_.path, std::string(what)));
    };
    note(
        " is a trace of nvprof: its times count from nvprof's start, and it has no ranges, so steps are "
        "inferred");
    if (!rows_.has_calls())
      note(" has no calls of the host, so launches are unknown; print it with --print-api-trace besides");
    if (table_.coarse_starts())
      note(" has start times in seconds, exact to 1 us; print it with --normalized-time-unit ns");
    if (rows_.left_out() != 0)
      note(absl::StrCat(" has ", rows_.left_out(),
                        " rows of unified memory, ranges and marks, which are left out"));
  }

  ByteSource& source_;
  const TraceFile& from_;
  TextLines lines_;
  Process process_;
  uint64_t cut_off_ = 0;  // number of the last line, if nvprof was stopped within it
  capture::Capture capture_;
  NvprofTable table_;
  NvprofRows rows_{table_, capture_.strings};
};

}  // namespace

absl::StatusOr<capture::Capture> ReadNvprof(ByteSource& source, const TraceFile& from,
                                            const std::function<void(uint64_t)>& progress) {
  return Reader(source, from, progress).Read();
}

}  // namespace lockstep::formats
