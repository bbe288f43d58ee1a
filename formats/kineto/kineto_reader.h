// One Kineto trace into a KinetoFile.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_KINETO_READER_H_
#define LOCKSTEP_AGGREGATOR_TRACE_KINETO_READER_H_

#include <functional>

#include "aggregator/trace/readers.h"
#include "formats/common/byte_source.h"
#include "formats/kineto/kineto_file.h"

namespace lockstep::trace {

// kPipeline inflates and splits on a thread of its own, beside the parsing one.
enum class ReadMode { kOneThread, kPipeline };

// Reads whatever can be read; what cannot is in the result (`damage`, `broken_off`, `has_events`).
// `progress`, when not empty, is called now and then with the bytes of the file consumed so far.
KinetoFile ReadKineto(ByteSource& source, ReadMode mode, HostDetail host,
                      const std::function<void(uint64_t)>& progress);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_KINETO_READER_H_
