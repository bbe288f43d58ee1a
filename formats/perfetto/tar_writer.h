// TarWriter writes a TAR archive (POSIX ustar) of a few files to a sink.
#ifndef LOCKSTEP_FORMATS_PERFETTO_TAR_WRITER_H_
#define LOCKSTEP_FORMATS_PERFETTO_TAR_WRITER_H_

#include <string_view>

#include "absl/status/status.h"
#include "base/files/byte_sink.h"

namespace lockstep::formats {

// The same members give the same bytes: times are 0 and owners are empty. One thread.
class TarWriter {
 public:
  // `sink` outlives the writer; the writer does not Finish() it.
  explicit TarWriter(ByteSink& sink) : sink_(sink) {}

  // Adds a file. kInvalidArgument: the name is longer than 99 bytes, or the file has 8 GiB or more, which the
  // header cannot express.
  absl::Status Add(std::string_view name, std::string_view bytes);
  absl::Status Finish();

 private:
  ByteSink& sink_;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_PERFETTO_TAR_WRITER_H_
