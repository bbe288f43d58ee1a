// Reads one Kineto trace into a KinetoFile.
#ifndef LOCKSTEP_FORMATS_KINETO_KINETO_READER_H_
#define LOCKSTEP_FORMATS_KINETO_KINETO_READER_H_

#include <functional>

#include "formats/common/byte_source.h"
#include "formats/common/read_options.h"
#include "formats/kineto/kineto_file.h"

namespace lockstep::formats {

// kPipeline inflates and splits on its own thread, beside the parsing thread.
enum class ReadMode { kOneThread, kPipeline };

// Reads all that is readable. `damage`, `broken_off` and `has_events` of the result describe the rest.
// `progress`, if not empty, is called from time to time with the number of bytes consumed.
KinetoFile ReadKineto(ByteSource& source, ReadMode mode, HostDetail host,
                      const std::function<void(uint64_t)>& progress);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_KINETO_READER_H_
