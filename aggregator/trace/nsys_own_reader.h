// An export of ours, read back as the capture that it was made of.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NSYS_OWN_READER_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NSYS_OWN_READER_H_

#include <string>

#include "capture/model/capture.h"
#include "formats/nsys/nsys_file.h"
#include "formats/nsys/sqlite_database.h"

namespace lockstep::trace {

// `file` has own tables. Stamps are those of each rank's host again. Nothing there is trusted: numbers that
// lead nowhere are counted. Not Finish()ed; without ranks when none can be read.
store::Capture ReadOwnCapture(const SqliteDatabase& database, NsysFile file, const std::string& path);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NSYS_OWN_READER_H_
