// One nsys SQLite export into an NsysFile.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NSYS_READER_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NSYS_READER_H_

#include <cstdint>
#include <functional>

#include "aggregator/trace/readers.h"
#include "formats/nsys/nsys_file.h"
#include "formats/nsys/sqlite_database.h"

namespace lockstep::trace {

// Rows read of all there are.
using RowProgress = std::function<void(uint64_t done, uint64_t total)>;

// Reads whatever can be read, table by table in the order of the file; what cannot is in the result. Memory
// follows the rows that are kept, and of strings only those that rows name are looked up.
NsysFile ReadNsys(const SqliteDatabase& database, const RowProgress& progress,
                  HostDetail host = HostDetail::kUnions);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NSYS_READER_H_
