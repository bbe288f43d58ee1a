// Writes a job as an OTF2 archive (docs/formats/otf2.md).
#ifndef LOCKSTEP_FORMATS_OTF2_OTF2_WRITER_H_
#define LOCKSTEP_FORMATS_OTF2_OTF2_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"
#include "formats/common/write_progress.h"

namespace lockstep::formats {

// Writes all ranks on one clock as an OTF2 archive, which Vampir, Scalasca and otf2-print open. `folder`
// appears only when it is complete. It replaces an archive that Lockstep wrote, and no other folder with
// content (kFailedPrecondition). The library has one error callback per process, so only one call may run at
// a time.
absl::Status WriteOtf2(const capture::Capture& capture, const capture::Matches& matches,
                       const capture::ClockModel& clock, const std::string& folder,
                       const WriteProgress& progress = {});

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_OTF2_OTF2_WRITER_H_
