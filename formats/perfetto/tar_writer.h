// A TAR archive (POSIX ustar) of a few files, written in one go.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_TAR_WRITER_H_
#define LOCKSTEP_AGGREGATOR_TRACE_TAR_WRITER_H_

#include <string_view>

#include "absl/status/status.h"
#include "base/files/byte_sink.h"

namespace lockstep::trace {

// The same members give the same bytes: times are 0, owners nobody. One thread.
class TarWriter {
 public:
  // `sink` outlives the writer; the writer does not Finish() it.
  explicit TarWriter(store::ByteSink& sink) : sink_(sink) {}

  // kInvalidArgument: a name of more than 99 bytes, or a file of 8 GiB and more, which the header cannot say.
  absl::Status Add(std::string_view name, std::string_view bytes);
  absl::Status Finish();

 private:
  store::ByteSink& sink_;
};

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_TAR_WRITER_H_
