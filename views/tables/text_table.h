// Formats a table for readers: aligned, with readable units, no wider than the terminal. Another form is for
// awk: one line per row, separated by blanks.
#ifndef LOCKSTEP_VIEWS_TABLES_TEXT_TABLE_H_
#define LOCKSTEP_VIEWS_TABLES_TEXT_TABLE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "views/tables/grid.h"

namespace lockstep::views {

struct TextTableOptions {
  int width = 0;          // in characters; 0: unlimited
  std::string_view kept;  // a column that stays, or empty
  // Columns that do not fit: left out, or lines longer than `width`.
  enum class TooWide : uint8_t { kLeaveOutColumns, kLongerLines } too_wide = TooWide::kLeaveOutColumns;
};

// The header is the column's name without its unit. If the table is wider than `width`, texts are cut in the
// middle, so that both ends of a kernel's name stay. Different texts of a column that would then look the
// same are cut around their differences, up to three; with more, they end in numbers ("#1"). Then columns are
// left out from the right, except the first one and `kept`, and the last line names them. Columns without a
// value are not shown. A table of one column of texts wraps them, or has longer lines. Control characters in
// texts become '?' (base/log/clean_text.h), as in PlainTable().
std::string TextTable(const Grid& grid, const TextTableOptions& options);

// Formats one line per row, without a header. Values are as in CSV, separated by a blank. A blank in a value
// becomes '_', and null is "-".
std::string PlainTable(const Grid& grid);

// Returns a value in the form of TextTable(): "4.21 ms", "17.5 MB", "36.0%", "1.2 TFLOP/s".
std::string CellText(const Column& column, const Cells& cells, size_t row);
// Returns "self host" for "self_host_ns".
std::string HeaderOf(const Column& column);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_TABLES_TEXT_TABLE_H_
