#include "aggregator/housekeeper.h"

#include <optional>
#include <utility>

namespace lockstep::aggregator {

Housekeeper::Housekeeper(HousekeeperOptions options, const aggregator::JobClock& clock,
                         aggregator::CaptureUse& use, std::function<bool(const std::string&)> in_use,
                         AuditLog& audit, ServerMetrics& metrics)
    : options_(std::move(options)),
      clock_(clock),
      use_(use),
      in_use_(std::move(in_use)),
      audit_(audit),
      metrics_(metrics) {}

Housekeeper::~Housekeeper() { Stop(); }

void Housekeeper::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Housekeeper::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  if (thread_.joinable()) thread_.join();
}

void Housekeeper::Run() {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    {
      MutexUnlock unlocked(&mutex_);
      Tidy();
    }
    changed_.WaitFor(&mutex_, options_.period,
                     [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
  }
}

void Housekeeper::Tidy() {
  MutexLock lock(&tidying_);
  std::optional<JobTime> now = clock_.Now();
  if (!step_detector_.IsReliable(*now, options_.mono())) {
    now.reset();
    if (options_.retention.age) {
      options_.log(LogLevel::kWarning, "clock_stepped",
                   {{"text", "the clock has stepped: this run removes no capture by age"}});
    }
  }
  const Retired retired = Retire(options_.folder, options_.retention, now, options_.surplus(), use_, in_use_);
  LogRetired(retired);
  metrics_.NoteRetired(retired);
}

void Housekeeper::LogRetired(const Retired& retired) {
  for (const RetiredCapture& capture : retired.captures) {
    options_.log(LogLevel::kInfo, "capture_removed",
                 {{"capture", capture.name}, {"limit", capture.reason}, {"bytes", capture.bytes}});
    audit_.Note("retire", {"program", std::nullopt, ""}, "ok",
                {{"capture", capture.name}, {"limit", capture.reason}, {"bytes", capture.bytes}});
  }
  for (const std::string& reason : retired.failed)
    options_.log(LogLevel::kError, "capture_not_removed", {{"reason", reason}});
}

}  // namespace lockstep::aggregator
