// Writes a job as an SQLite file with the tables of Nsight Systems' export (docs/formats/nsys_sqlite.md).
#ifndef LOCKSTEP_FORMATS_NSYS_NSYS_WRITER_H_
#define LOCKSTEP_FORMATS_NSYS_NSYS_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "capture/align/clock_model.h"
#include "capture/model/capture.h"
#include "formats/common/write_progress.h"

namespace lockstep::formats {

// Writes all ranks on one clock. `path` appears only when the file is complete. Fails if the file cannot be
// created, written or renamed.
absl::Status WriteNsysSqlite(const capture::Capture& capture, const capture::ClockModel& clock,
                             const std::string& path, const WriteProgress& progress = {});

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_NSYS_NSYS_WRITER_H_
