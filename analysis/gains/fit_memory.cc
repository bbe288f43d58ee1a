#include "analysis/gains/fit_memory.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/gains/memory_need.h"
#include "analysis/replay/prepared.h"
#include "base/parallel.h"
#include "capture/model/held_bytes.h"
#include "capture/model/keep_rows.h"
#include "capture/model/row_limit.h"

namespace lockstep::analysis {
namespace {

constexpr char kNeedsAllRows[] = "the output needs all rows";

AnalysisSize SizeOf(const capture::Capture& capture, const MemoryLimit& limit) {
  const capture::HeldBytes held = capture::HeldBytesOf(capture);
  return {capture::CountAnalysedRows(capture),
          (held.rows + held.other) * (limit.with_copy ? 2 : 1) + limit.other_bytes, limit.with_page};
}

absl::Status Refusal(const std::string& need, const MemoryLimit& limit, const std::string& reason) {
  return absl::ResourceExhaustedError(absl::StrCat(
      need, " of memory and may use ", MemoryText(limit.bytes), " (", limit.option, "); ", reason,
      ": record a shorter window or fewer steps (--duration, --steps), or raise ", limit.option));
}

absl::Status TooLarge(const AnalysisSize& size, const MemoryLimit& limit, const std::string& reason) {
  return Refusal(absl::StrCat("the analysis of ", size.rows, " kernels, copies and calls needs some ",
                              MemoryText(BytesToAnalyze(size, 1))),
                 limit, reason);
}

// Ranges of the rank's steps on its host. A rank without its own step marks has empty ones.
HostInterval StepsOnHost(const RankSteps& steps, size_t first, size_t end) {
  return {steps.steps[first].host.start, steps.steps[end - 1].host.end};
}

bool HasMarks(const RankSteps& steps) {
  return !steps.steps.empty() && steps.steps.front().host.end > steps.steps.front().host.start;
}

uint64_t CallsIn(const capture::RankData& rank, HostInterval interval) {
  const auto before = [](const capture::ApiCall& call, HostTime at) { return call.start < at; };
  const auto begin = rank.api_calls.begin(), end = rank.api_calls.end();
  return static_cast<uint64_t>(std::lower_bound(begin, end, interval.end, before) -
                               std::lower_bound(begin, end, interval.start, before));
}

std::vector<uint64_t> RowsOfSteps(const capture::Capture& capture, const Steps& steps) {
  std::vector<uint64_t> rows(steps.count(), 0);
  for (size_t r = 0; r < capture.ranks.size(); ++r) {
    const RankSteps& of_rank = steps.ranks[r];
    for (const int32_t step : of_rank.of_activity) {
      if (step >= 0) ++rows[static_cast<size_t>(step)];
    }
    if (!HasMarks(of_rank)) {
      // Its calls stay in whole. The last step is always counted.
      if (!rows.empty()) rows.back() += capture.ranks[r].api_calls.size();
      continue;
    }
    for (size_t k = 0; k < rows.size(); ++k)
      rows[k] += CallsIn(capture.ranks[r], StepsOnHost(of_rank, k, k + 1));
  }
  return rows;
}

// Keeps the steps from `first` on, and the step before them as lead-in. The mark of the lead-in goes, so that
// it is not a step.
void KeepLastSteps(const Steps& steps, size_t first, capture::Capture& capture) {
  for (size_t r = 0; r < capture.ranks.size(); ++r) {
    capture::RankData& rank = capture.ranks[r];
    const RankSteps& of_rank = steps.ranks[r];
    const auto lead_in = static_cast<int32_t>(first) - 1;
    capture::KeptRows kept{.activity = [&](uint32_t a) { return of_rank.of_activity[a] >= lead_in; },
                           .calls = {HostTime::Min(), HostTime::Max()},
                           .ranges = {HostTime::Min(), HostTime::Max()}};
    if (HasMarks(of_rank)) {
      kept.calls = StepsOnHost(of_rank, first - 1, steps.count());
      kept.ranges = StepsOnHost(of_rank, first, steps.count());
    }
    capture::KeepRows(kept, rank);
  }
}

// Returns the note.
absl::StatusOr<std::string> Shorten(const MemoryLimit& limit, const AnalysisSize& size,
                                    capture::DiskRows* disk, capture::Capture& capture) {
  if (BytesToFindSteps(size) > limit.bytes)
    return TooLarge(size, limit, "the limit does not suffice to find its steps");
  Steps steps = Prepared(capture, 1, disk).steps;
  if (!steps.found()) return TooLarge(size, limit, "it has no whole steps of which some could be left out");
  const size_t kept = StepsThatFit(size, RowsOfSteps(capture, steps), limit.bytes);
  if (kept < kLeastKeptSteps)
    return TooLarge(size, limit,
                    absl::StrCat("not even ", kLeastKeptSteps, " of its ", steps.count(), " steps fit"));
  KeepLastSteps(steps, steps.count() - kept, capture);
  if (disk != nullptr) disk->Take(capture);
  capture.notes.push_back(absl::StrCat("only the last ", kept, " of ", steps.count(),
                                       " whole steps were analysed, because all of them need some ",
                                       MemoryText(BytesToAnalyze(size, 1)), " of memory and may use ",
                                       MemoryText(limit.bytes), " (", limit.option, ")"));
  return capture.notes.back();
}

}  // namespace

std::string MemoryText(uint64_t bytes) {
  constexpr uint64_t kMiB = uint64_t{1} << 20, kGiB = uint64_t{1} << 30;
  if (bytes < kGiB) return absl::StrCat((bytes + kMiB - 1) / kMiB, " MiB");
  if (bytes % kGiB == 0) return absl::StrCat(bytes / kGiB, " GiB");
  return absl::StrFormat("%.1f GiB", static_cast<double>(bytes) / static_cast<double>(kGiB));
}

capture::RowOverflow::Fits FitsWithoutDisk(const MemoryLimit& limit) {
  return [limit](uint64_t rows, uint64_t bytes) {
    return limit.bytes == 0 ||
           BytesToAnalyze({rows, bytes * (limit.with_copy ? 2 : 1) + limit.other_bytes, limit.with_page},
                          1) <= limit.bytes;
  };
}

absl::StatusOr<MemoryFit> FitIntoMemory(const MemoryLimit& limit, capture::Capture& capture,
                                        std::unique_ptr<capture::DiskRows> disk) {
  MemoryFit fit{.threads = ThreadCount(limit.threads), .disk = std::move(disk)};
  if (limit.bytes == 0) return fit;
  const auto fits = [&](const AnalysisSize& size) {
    const std::optional<unsigned> threads = ThreadsThatFit(size, ThreadCount(limit.threads), limit.bytes);
    fit.threads = threads.value_or(1);
    return threads.has_value();
  };
  AnalysisSize size = SizeOf(capture, limit);
  if (fit.disk == nullptr && fits(size)) return fit;
  // Without a disk, the analysis continues with fewer steps.
  if (fit.disk == nullptr) fit.disk = capture::DiskRows::Create(limit.disk_folders).value_or(nullptr);
  if (fit.disk != nullptr) {
    size.on_disk = true;
    size.held_bytes -= std::min(size.held_bytes, fit.disk->Take(capture));
    if (fits(size)) return fit;
  }
  if (limit.may_shorten == MayShorten::kNo) return TooLarge(size, limit, kNeedsAllRows);
  absl::StatusOr<std::string> note = Shorten(limit, size, fit.disk.get(), capture);
  if (!note.ok()) return note.status();
  fit.note = *std::move(note);
  return fit;
}

absl::StatusOr<std::unique_ptr<capture::DiskRows>> FitRowsIntoMemory(
    const MemoryLimit& limit, capture::Capture& capture, std::unique_ptr<capture::DiskRows> disk) {
  AnalysisSize size = SizeOf(capture, limit);
  if (limit.bytes == 0 || (disk == nullptr && BytesToHold(size) <= limit.bytes)) return disk;
  if (disk == nullptr) disk = capture::DiskRows::Create(limit.disk_folders).value_or(nullptr);
  if (disk != nullptr) size.held_bytes -= std::min(size.held_bytes, disk->Take(capture));
  if (BytesToHold(size) <= limit.bytes) return disk;
  return Refusal(absl::StrCat("the input of ", size.rows, " kernels, copies and calls needs some ",
                              MemoryText(BytesToHold(size))),
                 limit, kNeedsAllRows);
}

}  // namespace lockstep::analysis
