#include "cli/top/top_feed.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rpc/status_macros.h"

namespace lockstep::cli {
namespace {

// Returns true if another try would give the same error.
bool IsFinal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

}  // namespace

TopFeed::TopFeed(Connect connect, v1::WatchRequest request, Nanos retry_after)
    : connect_(std::move(connect)),
      request_(std::move(request)),
      retry_after_(retry_after),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void TopFeed::Start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void TopFeed::Stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  // Cancels repeatedly until the thread has ended, because one cancellation may come just before the call
  // begins.
  std::jthread cancel([this](const std::stop_token& done) {
    while (!done.stop_requested()) {
      {
        MutexLock lock(&mutex_);
        if (client_ != nullptr) client_->CancelTrace();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  thread_.join();
  thread_ = {};
}

TopFeed::Update TopFeed::Take() {
  uint64_t count = 0;
  if (::read(wake_.get(), &count, sizeof(count)) < 0) count = 0;  // the counter was zero
  MutexLock lock(&mutex_);
  return std::exchange(update_, {});
}

void TopFeed::Publish(std::optional<v1::WatchEvent> event, std::optional<absl::Status> end) {
  {
    MutexLock lock(&mutex_);
    if (event) update_.events.push_back(*std::move(event));
    if (end) update_.end = std::move(end);
  }
  const uint64_t one = 1;
  // A full counter is also readable.
  if (::write(wake_.get(), &one, sizeof(one)) < 0) return;
}

absl::Status TopFeed::WatchOnce(const std::stop_token& stop, bool& any) {
  LOCKSTEP_ASSIGN_OR_RETURN(const TopSource source, connect_());
  {
    MutexLock lock(&mutex_);
    client_ = source.client;
  }
  absl::Status status = absl::CancelledError("stopped");
  if (!stop.stop_requested()) {
    status = source.client->Watch(request_, [&](const v1::WatchEvent& event) {
      any = true;
      Publish(event, std::nullopt);
    });
  }
  MutexLock lock(&mutex_);
  client_ = nullptr;
  return status;
}

void TopFeed::Run(const std::stop_token& stop) {
  bool seen = false;
  absl::Status status;
  for (int left = kMostTries; left > 0 && !stop.stop_requested(); --left) {
    bool any = false;
    status = WatchOnce(stop, any);
    seen = seen || any;
    if (any) left = kMostTries;
    if (status.ok() || stop.stop_requested()) break;
    // A job that was seen before and is not found any more has ended.
    if (absl::IsNotFound(status) && seen) status = absl::OkStatus();
    if (status.ok() || IsFinal(status)) break;
    std::this_thread::sleep_for(std::chrono::nanoseconds(retry_after_.ns()));
  }
  if (absl::IsUnimplemented(status)) {
    status = absl::FailedPreconditionError(
        "the aggregator is older than this command and cannot sample jobs: install the same version there");
  }
  if (!stop.stop_requested()) Publish(std::nullopt, status);
}

}  // namespace lockstep::cli
