// Where writers put their bytes.
//
// Implemented by: AtomicFile and GzipSink (aggregator/store/file_sink.h), StringSink (below, also the tests'
// fake). One thread at a time. Finish() is called once, after the last Append; until it returned ok nothing
// is promised.
#ifndef LOCKSTEP_AGGREGATOR_STORE_BYTE_SINK_H_
#define LOCKSTEP_AGGREGATOR_STORE_BYTE_SINK_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lockstep::store {

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

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_BYTE_SINK_H_
