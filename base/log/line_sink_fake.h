// A sink for tests, which keeps its lines where the test can read them.
#ifndef LOCKSTEP_BASE_LOG_LINE_SINK_FAKE_H_
#define LOCKSTEP_BASE_LOG_LINE_SINK_FAKE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/log/line_file.h"
#include "base/mutex.h"

namespace lockstep {

// It must outlive the sink that writes to it. Any thread may call it.
class RecordedLines {
 public:
  std::vector<std::string> lines() const {
    MutexLock lock(&mutex_);
    return lines_;
  }
  void Add(std::string_view line) {
    MutexLock lock(&mutex_);
    lines_.emplace_back(line);
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

class FakeLineSink final : public LineSink {
 public:
  explicit FakeLineSink(RecordedLines& kept) : kept_(kept) {}
  absl::Status Append(std::string_view line) override {
    kept_.Add(line);
    return absl::OkStatus();
  }

 private:
  RecordedLines& kept_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_LOG_LINE_SINK_FAKE_H_
