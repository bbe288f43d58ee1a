// A table for people: aligned, with units a person reads, no wider than the terminal. And for awk: one line a
// row, blanks between.
#ifndef LOCKSTEP_AGGREGATOR_TABLES_TEXT_TABLE_H_
#define LOCKSTEP_AGGREGATOR_TABLES_TEXT_TABLE_H_

#include <string>
#include <string_view>

#include "views/tables/grid.h"

namespace lockstep::tables {

// The header is the column's name without its unit. Texts are cut where all does not fit the width, in the
// middle, so that both ends of a kernel's name stay; then columns are left out from the right, and the last
// line names them. Columns without any value are not shown. `width` in characters of a terminal; 0: as wide
// as it gets.
std::string TextTable(const Grid& grid, int width);

// One line a row, values as CSV has them, a blank between; blanks in a value become '_', nothing known is
// "-". No header.
std::string PlainTable(const Grid& grid);

// A value as TextTable() writes it: "4.21 ms", "17.5 MB", "36.0%", "1.2 TFLOP/s".
std::string CellText(const Column& column, const Cells& cells, size_t row);
// "self host" of "self_host_ns".
std::string HeaderOf(const Column& column);

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_TEXT_TABLE_H_
