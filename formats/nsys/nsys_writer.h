// The parts of WriteNsysSqlite() (writers.h).
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NSYS_WRITER_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NSYS_WRITER_H_

#include "capture/model/capture.h"
#include "formats/nsys/nsys_identity.h"
#include "formats/nsys/sqlite_writer.h"

namespace lockstep::trace {

// The LOCKSTEP_ tables: what Nsight Systems' tables have no place for and a report needs. Threads that got
// other numbers are known only once all rows of host threads are written, so this comes last. Errors stay
// with `writer`.
void WriteOwnTables(const store::Capture& capture, NsysIdentity& identity, SqliteWriter& writer);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NSYS_WRITER_H_
