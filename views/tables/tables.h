// Lists all tables of a capture, in the order in which they are written.
#ifndef LOCKSTEP_VIEWS_TABLES_TABLES_H_
#define LOCKSTEP_VIEWS_TABLES_TABLES_H_

#include <span>
#include <string>

#include "views/tables/table_source.h"

namespace lockstep::views {

Sources AllTables();

// Parts of AllTables(), by the source of their rows.
void AddReportTables(Sources& out);      // report_tables.cc: content of report.json
void AddCollectiveTables(Sources& out);  // collective_tables.cc: matched instances, member by member
void AddEventTables(
    Sources& out);  // event_tables.cc: recorded activities, calls and ranges, and kernels summed by name
void AddNcclTables(Sources& out);  // nccl_tables.cc: NCCL's own records

// The table of the columns of `sources`, one row each. It is written beside the other tables, so that a
// reader needs no documentation. `sources` outlive it.
std::unique_ptr<TableSource> ColumnsTable(const Sources& sources);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_TABLES_TABLES_H_
