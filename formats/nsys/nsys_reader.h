// Reads one nsys SQLite export into an NsysFile.
#ifndef LOCKSTEP_FORMATS_NSYS_NSYS_READER_H_
#define LOCKSTEP_FORMATS_NSYS_NSYS_READER_H_

#include <cstdint>
#include <functional>

#include "formats/common/read_options.h"
#include "formats/nsys/nsys_file.h"
#include "formats/nsys/sqlite_database.h"

namespace lockstep::formats {

// Receives the number of rows read, and of all rows.
using RowProgress = std::function<void(uint64_t done, uint64_t total)>;

// Reads all readable rows, table by table in the order of the file; losses are in the result. Memory grows
// with the rows that are kept. Only strings that rows name are looked up.
NsysFile ReadNsys(const SqliteDatabase& database, const RowProgress& progress,
                  HostDetail host = HostDetail::kUnions);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_NSYS_NSYS_READER_H_
