// All tables of a capture, in the order in which they are written and listed.
#ifndef LOCKSTEP_AGGREGATOR_TABLES_TABLES_H_
#define LOCKSTEP_AGGREGATOR_TABLES_TABLES_H_

#include <span>
#include <string>

#include "views/tables/table_source.h"

namespace lockstep::tables {

Sources AllTables();

// Parts of AllTables(), by what their rows are made from.
void AddReportTables(Sources& out);      // report_tables.cc: what report.json holds
void AddCollectiveTables(Sources& out);  // collective_tables.cc: matched instances, member by member
void AddEventTables(
    Sources& out);  // event_tables.cc: what was recorded, row by row, and kernels summed by name
void AddNcclTables(Sources& out);  // nccl_tables.cc: what NCCL tells beside its kernels

// The columns of `sources` themselves, a row each: written beside the others, so that a reader needs no
// documentation. `sources` outlive it.
std::unique_ptr<TableSource> ColumnsTable(const Sources& sources);

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_TABLES_H_
