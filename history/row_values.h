// Converts between the values of model.h and the rows of the tables. The order is that of tables.h.
#ifndef LOCKSTEP_HISTORY_ROW_VALUES_H_
#define LOCKSTEP_HISTORY_ROW_VALUES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "history/database/database.h"
#include "history/model.h"

namespace lockstep::history {

// The rows of a capture in one table.
struct TableRows {
  std::string table;
  std::vector<Row> rows;
};
// Returns the rows of all tables. A table comes after those that it refers to.
std::vector<TableRows> RowsOf(const CaptureSummary& summary);

// Read a row of all columns of a table. A cell of another type is unknown, 0 or empty: another program may
// have written it.
CaptureHead HeadFrom(const Row& row);
Label LabelFrom(const Row& row);
RankSummary RankFrom(const Row& row);
StepSummary StepFrom(const Row& row);
Finding FindingFrom(const Row& row);

// Cells by their place.
int64_t WholeIn(const Row& row, size_t place);
std::string TextIn(const Row& row, size_t place);

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_ROW_VALUES_H_
