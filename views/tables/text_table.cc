#include "views/tables/text_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "analysis/explain/causes.h"
#include "base/json/utf8.h"
#include "base/log/clean_text.h"

namespace lockstep::views {
namespace {

constexpr size_t kGap = 2;
// The least width that a text column keeps. The first one names the subject of the row, so it keeps more.
constexpr size_t kLeastFirst = 32;
constexpr size_t kLeastOther = 16;

// Counts characters, not bytes.
size_t WidthOf(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

size_t BytesOf(std::string_view text, size_t characters) {
  size_t at = 0;
  while (characters-- > 0 && at < text.size()) at += std::max<size_t>(1, Utf8Length(text.substr(at)));
  return at;
}

std::string CutInTheMiddle(const std::string& text, size_t width) {
  const size_t size = WidthOf(text);
  if (size <= width) return text;
  const size_t tail = (width - 1) / 3;
  const size_t head = width - 1 - tail;
  return text.substr(0, BytesOf(text, head)) + "…" + text.substr(BytesOf(text, size - tail));
}

// Returns `count` characters from the character `from` on.
std::string Slice(const std::string& text, size_t from, size_t count) {
  const size_t first = BytesOf(text, from);
  return text.substr(first, BytesOf(text, from + count) - first);
}

// Like CutInTheMiddle, but shows the text around the bytes `places`, which are ascending.
std::string CutAround(const std::string& text, const std::vector<size_t>& places, size_t width) {
  const size_t size = WidthOf(text);
  if (size <= width) return text;
  constexpr size_t kBefore = 2;
  size_t end = width / (places.size() + 2);
  std::string cut = Slice(text, 0, end);
  for (size_t i = 0; i < places.size(); ++i) {
    const size_t place = WidthOf(std::string_view(text).substr(0, places[i]));
    // One character of each part is the ellipsis before it, and the last one has another behind it.
    const size_t part = (width - 1 - WidthOf(cut)) / (places.size() - i) - 1;
    size_t from = std::max(place - std::min(place, kBefore), end);
    if (i + 1 == places.size() && from + part + 1 >= size)
      return cut + "…" + Slice(text, size - part - 1, part + 1);
    cut += from == end ? "" : "…";
    cut += Slice(text, from, part);
    end = from + part;
  }
  return cut + "…";
}

// Texts by their form in the table.
using CutTexts = std::map<std::string, std::string>;

// Shows in each of `texts`, which are sorted, where it begins to differ from the others. `places` are those
// where all of them differ from other texts.
void Separate(const std::vector<std::string>& texts, size_t width, std::vector<size_t> places,
              CutTexts& cut) {
  constexpr size_t kMostPlaces = 3;
  const std::string& first = texts.front();
  const std::string& last = texts.back();
  // The first and the last of sorted texts have the common beginning of all.
  places.push_back(static_cast<size_t>(
      std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first - first.begin()));
  std::map<std::string, std::vector<std::string>> same;
  for (const std::string& text : texts) same[cut[text] = CutAround(text, places, width)].push_back(text);
  for (const auto& [shown, alike] : same) {
    if (alike.size() > 1 && places.size() < kMostPlaces) Separate(alike, width, places, cut);
  }
}

// Numbers texts that differ in more places than their width can show.
void NumberAlike(CutTexts& cut) {
  std::map<std::string, std::vector<std::string>> same;
  for (const auto& [text, shown] : cut) same[shown].push_back(text);
  for (const auto& [shown, alike] : same) {
    for (size_t i = 0; alike.size() > 1 && i < alike.size(); ++i) {
      const std::string number = absl::StrCat("#", i + 1);
      cut[alike[i]] = Slice(shown, 0, WidthOf(shown) - number.size()) + number;
    }
  }
}

// Cuts the texts of a column to `width`. Different texts stay different.
void CutCells(std::vector<std::string>& cells, size_t width) {
  CutTexts cut;
  for (const std::string& cell : cells) cut.emplace(cell, CutInTheMiddle(cell, width));
  std::map<std::string, std::vector<std::string>> same;
  for (const auto& [text, shown] : cut) same[shown].push_back(text);
  for (const auto& [shown, alike] : same) {
    if (alike.size() > 1) Separate(alike, width, {}, cut);
  }
  NumberAlike(cut);
  for (std::string& cell : cells) cell = cut[cell];
}

// Splits a text at blanks into lines of at most `width` characters. A longer word is split.
std::string Wrapped(const std::string& text, size_t width) {
  constexpr size_t kHang = 2;
  std::string lines;
  for (size_t at = 0; at < text.size();) {
    const std::string indent(at == 0 ? 0 : kHang, ' ');
    const size_t most = BytesOf(std::string_view(text).substr(at), width - indent.size());
    size_t end = at + most;
    if (end < text.size()) {
      const size_t blank = text.rfind(' ', end);
      if (blank != std::string::npos && blank > at) end = blank;
    }
    lines += (at == 0 ? "" : "\n") + indent + text.substr(at, end - at);
    for (at = end; at < text.size() && text[at] == ' ';) ++at;
  }
  return lines;
}

// Formats three digits with a prefix of a thousand: "17.5 M".
std::string Scaled(double value, double thousand, const char* unit) {
  constexpr std::array kPrefixes = {"", "k", "M", "G", "T", "P"};
  size_t i = 0;
  for (; std::fabs(value) >= thousand && i + 1 < kPrefixes.size(); ++i) value /= thousand;
  const double shown = std::fabs(value);
  const int digits = i == 0 || shown >= 99.95 ? 0 : shown >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f %s%s", digits, value, kPrefixes[i], unit);
}

std::string NumberText(std::string_view unit, double value) {
  if (unit == "ns") return analysis::LengthText(value);
  if (unit == "bytes") return Scaled(value, 1024, "B");
  if (unit == "bytes_per_s") return Scaled(value, 1000, "B/s");
  if (unit == "flop") return Scaled(value, 1000, "FLOP");
  if (unit == "flop_per_s") return Scaled(value, 1000, "FLOP/s");
  if (unit == "fraction") return absl::StrFormat("%.*f%%", std::fabs(value) < 0.0995 ? 2 : 1, 100 * value);
  return absl::StrFormat("%.3g", value);
}

struct ShownColumn {
  size_t column = 0;
  bool text = false;
  std::string header;
  std::vector<std::string> cells;
  size_t width = 0;
};

std::vector<ShownColumn> Format(const Grid& grid) {
  std::vector<ShownColumn> out;
  for (size_t c = 0; c < grid.table().columns.size(); ++c) {
    const Column& column = grid.table().columns[c];
    ShownColumn shown{.column = c, .text = column.type == CellType::kText, .header = HeaderOf(column)};
    shown.width = WidthOf(shown.header);
    bool any = false;
    for (size_t row = 0; row < grid.rows(); ++row) {
      shown.cells.push_back(CellText(column, grid.cells(c), grid.RowAt(row)));
      shown.width = std::max(shown.width, WidthOf(shown.cells.back()));
      any = any || !grid.cells(c).IsNull(grid.RowAt(row));
    }
    if (any || grid.rows() == 0) out.push_back(std::move(shown));
  }
  return out;
}

size_t TotalWidth(const std::vector<ShownColumn>& columns) {
  size_t total = columns.empty() ? 0 : kGap * (columns.size() - 1);
  for (const ShownColumn& column : columns) total += column.width;
  return total;
}

// Shortens texts and removes columns until the table fits, or only the first column and `kept` are left.
// Returns the names of the removed columns.
std::vector<std::string_view> Fit(const Grid& grid, const TextTableOptions& options,
                                  std::vector<ShownColumn>& columns) {
  const auto width = static_cast<size_t>(options.width);
  std::vector<std::string_view> left_out;
  const auto spare = [&columns](size_t i) -> size_t {
    if (!columns[i].text) return 0;
    const bool first = std::none_of(columns.begin(), columns.begin() + static_cast<ptrdiff_t>(i),
                                    [](const ShownColumn& c) { return c.text; });
    const size_t least = first ? kLeastFirst : kLeastOther;
    return columns[i].width > least ? columns[i].width - least : 0;
  };
  const auto shrink = [&] {
    while (TotalWidth(columns) > width) {
      size_t most = 0;
      for (size_t i = 1; i < columns.size(); ++i) {
        if (spare(i) > spare(most)) most = i;
      }
      if (spare(most) == 0) return false;
      columns[most].width -= std::min(spare(most), TotalWidth(columns) - width);
    }
    return true;
  };
  std::vector<size_t> wanted;
  for (const ShownColumn& column : columns) wanted.push_back(column.width);
  while (!shrink() && options.too_wide == TextTableOptions::TooWide::kLeaveOutColumns) {
    size_t last = columns.size() - 1;
    while (last > 0 && grid.table().columns[columns[last].column].name == options.kept) --last;
    if (last == 0) break;
    left_out.insert(left_out.begin(), grid.table().columns[columns[last].column].name);
    columns.erase(columns.begin() + static_cast<ptrdiff_t>(last));
    wanted.erase(wanted.begin() + static_cast<ptrdiff_t>(last));
    for (size_t i = 0; i < columns.size(); ++i) columns[i].width = wanted[i];
  }
  return left_out;
}

void AddCellTo(std::string& line, const ShownColumn& column, const std::string& cell, bool last) {
  const std::string pad(column.width - std::min(column.width, WidthOf(cell)), ' ');
  if (column.text) {
    line += cell;
    if (!last) line += pad;
  } else {
    line += pad + cell;
  }
  if (!last) line.append(kGap, ' ');
}

}  // namespace

std::string HeaderOf(const Column& column) {
  std::string name(column.name);
  const std::string unit = absl::StrCat("_", std::string(column.unit));
  if (!column.unit.empty() && name.ends_with(unit)) {
    name.resize(name.size() - unit.size());
    if (column.unit == "fraction") name += " %";
  }
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string CellText(const Column& column, const Cells& cells, size_t row) {
  if (cells.IsNull(row)) return "-";
  switch (column.type) {
    case CellType::kText:
      // A row must stay on one line.
      return CleanText(
          absl::StrReplaceAll(absl::string_view(cells.texts()[row].data(), cells.texts()[row].size()),
                              {{"\n", " "}, {"\r", " "}, {"\t", " "}}));
    case CellType::kBool:
      return cells.numbers()[row] != 0 ? "yes" : "no";
    case CellType::kDouble:
      return NumberText(column.unit, cells.doubles()[row]);
    default:
      return column.unit.empty() ? absl::StrCat(cells.numbers()[row])
                                 : NumberText(column.unit, static_cast<double>(cells.numbers()[row]));
  }
}

std::string TextTable(const Grid& grid, const TextTableOptions& options) {
  std::vector<ShownColumn> columns = Format(grid);
  std::vector<std::string_view> left_out;
  // A column of its own can show whole texts.
  const bool alone = columns.size() == 1 && columns[0].text;
  if (options.width > 0 && !(alone && options.too_wide == TextTableOptions::TooWide::kLongerLines))
    left_out = Fit(grid, options, columns);
  for (ShownColumn& column : columns) {
    if (alone) {
      for (std::string& cell : column.cells) cell = Wrapped(cell, column.width);
    } else if (column.text) {
      CutCells(column.cells, column.width);
    }
  }
  std::string out;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (const ShownColumn& column : columns)
      AddCellTo(line, column, cell_of(column), &column == &columns.back());
    out += line + "\n";
  };
  add_line([](const ShownColumn& column) { return column.header; });
  std::string rule;
  for (const ShownColumn& column : columns)
    rule += std::string(column.width, '-') + (&column == &columns.back() ? "" : std::string(kGap, ' '));
  out += rule + "\n";
  for (size_t row = 0; row < grid.rows(); ++row) {
    add_line([row](const ShownColumn& column) { return column.cells[row]; });
  }
  if (!left_out.empty()) {
    absl::StrAppend(
        &out, "not shown, because the table is too wide: ",
        absl::StrJoin(left_out, ", ", [](std::string* to, std::string_view name) { to->append(name); }),
        " (-w 0 shows all, -c chooses)\n");
  }
  return out;
}

std::string PlainTable(const Grid& grid) {
  std::string out;
  for (size_t row = 0; row < grid.rows(); ++row) {
    for (size_t c = 0; c < grid.table().columns.size(); ++c) {
      const Column& column = grid.table().columns[c];
      const Cells& cells = grid.cells(c);
      const size_t at = grid.RowAt(row);
      std::string text = "-";
      if (!cells.IsNull(at)) {
        switch (column.type) {
          case CellType::kText:
            text = cells.texts()[at];
            std::replace_if(
                text.begin(), text.end(), [](char x) { return static_cast<unsigned char>(x) <= ' '; }, '_');
            text = text.empty() ? "-" : CleanText(text);
            break;
          case CellType::kBool:
            text = cells.numbers()[at] != 0 ? "1" : "0";
            break;
          case CellType::kDouble: {
            char digits[32];
            text.assign(digits, std::to_chars(digits, digits + sizeof digits, cells.doubles()[at]).ptr);
            break;
          }
          default:
            text = absl::StrCat(cells.numbers()[at]);
        }
      }
      out += (c == 0 ? "" : " ") + text;
    }
    out += "\n";
  }
  return out;
}

}  // namespace lockstep::views
