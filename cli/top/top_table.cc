#include "cli/top/top_table.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "analysis/explain/causes.h"
#include "report/text_layout.h"

namespace lockstep::cli {
namespace {

using analysis::LengthText;

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kRight;
  int importance = 0;  // the lowest is removed first
  std::vector<std::string> cells;
};

constexpr size_t kGap = 2;
constexpr size_t kLongestText = 24;

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }

size_t WidthOf(const Column& column) {
  size_t width = Columns(column.title);
  for (const std::string& cell : column.cells) width = std::max(width, Columns(cell));
  return width;
}

std::string Padded(const std::string& text, size_t width, Align align) {
  const std::string blanks(width - std::min(width, Columns(text)), ' ');
  return align == Align::kLeft ? text + blanks : blanks + text;
}

std::vector<std::string> Lay(std::vector<Column> columns, size_t width) {
  const auto total = [&] {
    return std::accumulate(columns.begin(), columns.end(), size_t{0},
                           [](size_t sum, const Column& c) { return sum + WidthOf(c) + kGap; });
  };
  while (columns.size() > 1 && total() > width + kGap) {
    columns.erase(std::min_element(columns.begin(), columns.end(), [](const Column& a, const Column& b) {
      return a.importance < b.importance;
    }));
  }
  std::vector<std::string> lines(columns[0].cells.size() + 1);
  for (const Column& column : columns) {
    const size_t wide = WidthOf(column);
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!lines[i].empty()) lines[i].append(kGap, ' ');
      lines[i] += Padded(i == 0 ? column.title : column.cells[i - 1], wide, column.align);
    }
  }
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    line = Fitted(line, width);
  }
  return lines;
}

std::string Part(int64_t ns, const v1::SampleRank& rank) {
  return rank.span_ns() > 0 ? report::Percent(static_cast<double>(ns) / static_cast<double>(rank.span_ns()))
                            : "-";
}

}  // namespace

size_t Columns(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

std::string Fitted(std::string_view text, size_t width) {
  std::string out;
  size_t columns = 0;
  for (const char c : text) {
    if (!IsContinuation(c) && ++columns > width) break;
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  }
  return out;
}

std::vector<std::string> RankTable(const std::vector<const v1::SampleRank*>& rows, TopSort sort,
                                   size_t width) {
  constexpr int kAlways = 100;
  const auto titled = [&](const char* title, TopSort key) {
    return sort == key ? absl::StrCat(title, "*") : std::string(title);
  };
  std::vector<Column> columns = {{titled("RANK", TopSort::kRank), Align::kRight, kAlways, {}},
                                 {"HOST", Align::kLeft, 7, {}},
                                 {"GPU", Align::kRight, 6, {}},
                                 {"SELF", Align::kRight, 3, {}},
                                 {titled("ABOVE TYPICAL", TopSort::kAboveTypical), Align::kRight, 9, {}},
                                 {titled("WAIT", TopSort::kWait), Align::kRight, 8, {}},
                                 {titled("TRANSFER", TopSort::kTransfer), Align::kRight, 2, {}},
                                 {titled("OVERLAP", TopSort::kOverlap), Align::kRight, 5, {}},
                                 {titled("IDLE", TopSort::kIdle), Align::kRight, 4, {}},
                                 {titled("LOST", TopSort::kLost), Align::kRight, 1, {}}};
  for (const v1::SampleRank* rank : rows) {
    const std::string cells[] = {
        absl::StrCat(rank->rank()),
        Fitted(rank->host(), kLongestText),
        absl::StrCat(rank->device()),
        rank->has_self_ns_per_step() ? LengthText(rank->self_ns_per_step()) : "-",
        rank->has_lost_ns_per_step() ? LengthText(rank->lost_ns_per_step()) : "-",
        Part(rank->exposed_wait_ns(), *rank),
        Part(rank->exposed_transfer_ns(), *rank),
        rank->has_overlap_fraction() ? report::Percent(rank->overlap_fraction()) : "-",
        Part(rank->idle_ns(), *rank),
        absl::StrCat(rank->lost_records())};
    for (size_t c = 0; c < columns.size(); ++c) columns[c].cells.push_back(cells[c]);
  }
  // The column of losses is never removed.
  const bool lost =
      std::any_of(rows.begin(), rows.end(), [](const v1::SampleRank* r) { return r->lost_records() > 0; });
  if (lost) columns.back().importance = kAlways;
  return Lay(std::move(columns), width);
}

std::vector<std::string> GroupTable(const v1::Sample& sample, size_t most, size_t width) {
  if (sample.groups_size() == 0) return {};
  std::vector<Column> columns = {{"COMMUNICATOR", Align::kLeft, 9, {}}, {"RANKS", Align::kRight, 2, {}},
                                 {"OPERATION", Align::kLeft, 6, {}},    {"COUNT", Align::kRight, 1, {}},
                                 {"SKEW P50", Align::kRight, 4, {}},    {"SKEW P99", Align::kRight, 8, {}},
                                 {"LAST", Align::kLeft, 7, {}}};
  for (int i = 0; i < std::min(sample.groups_size(), static_cast<int>(most)); ++i) {
    const v1::SampleGroup& group = sample.groups(i);
    const std::string cells[] = {Fitted(group.group(), kLongestText),
                                 absl::StrCat(group.size()),
                                 Fitted(group.op(), kLongestText),
                                 absl::StrCat(group.count()),
                                 LengthText(static_cast<double>(group.skew_p50_ns())),
                                 LengthText(static_cast<double>(group.skew_p99_ns())),
                                 group.has_last_rank()
                                     ? absl::StrCat("rank ", group.last_rank(), ", ", group.last_count(), "x")
                                     : "-"};
    for (size_t c = 0; c < columns.size(); ++c) columns[c].cells.push_back(cells[c]);
  }
  return Lay(std::move(columns), width);
}

}  // namespace lockstep::cli
