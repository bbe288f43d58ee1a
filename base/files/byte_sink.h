// ByteSink receives the bytes of a writer.
//
// AtomicFile and GzipSink (base/files/file_sink.h) and StringSink (below, also the tests' fake) implement it.
// One thread at a time may use it. The writer calls Finish() once, after the last Append. The bytes count as
// written only when Finish() has returned ok.
#ifndef LOCKSTEP_BASE_FILES_BYTE_SINK_H_
#define LOCKSTEP_BASE_FILES_BYTE_SINK_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lockstep {

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual absl::Status Append(std::string_view bytes) = 0;
  virtual absl::Status Finish() = 0;
};

class StringSink final : public ByteSink {
 public:
  absl::Status Append(std::string_view bytes) override {
    text_.append(bytes);
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_FILES_BYTE_SINK_H_
