// Turns a copy of an operation log into the records of a capture: each operation becomes a collective or
// message with its kernel, and each step a range. Pure functions.
//
// There are no calls. The log does not know when the host waits for the device, so the time between two
// launches would look like the host's own.
//
// The times of a kernel are those at which NCCL's proxy thread saw its first channel begin and its last one
// end. Operations that NCCL runs in one kernel (messages of a group) become one kernel.
#ifndef LOCKSTEP_DAEMON_CAPTURES_LOG_RECORDS_H_
#define LOCKSTEP_DAEMON_CAPTURES_LOG_RECORDS_H_

#include <cstdint>
#include <functional>

#include "base/time.h"
#include "wire/ring/progress_reader.h"
#include "wire/ring/reader.h"

namespace lockstep::daemon {

using RecordSink = std::function<void(const ring::RecordView&)>;

struct LogRecordCounts {
  uint64_t kernels = 0;
  // Operations that a rank entered in the window, and whose kernel NCCL has not seen begin.
  uint64_t not_started = 0;
};

// Passes the records of `window` to `sink`, strings before their use. A kernel belongs to the window in which
// it starts; one that has not ended lasts until the end of the window. The log is not trusted.
LogRecordCounts WriteLogRecords(const ring::OperationLog& log, const HostInterval& window,
                                const RecordSink& sink);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CAPTURES_LOG_RECORDS_H_
