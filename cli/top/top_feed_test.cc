#include "cli/top/top_feed.h"

#include <poll.h>

#include <atomic>

#include "base/mutex.h"
#include "cli/top/top_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::cli {
namespace {

// Sends its events, and then ends with the given status or waits to be cancelled.
class FakeClient final : public AggregatorClient {
 public:
  explicit FakeClient(std::vector<v1::WatchEvent> events, std::optional<absl::Status> end)
      : events_(std::move(events)), end_(std::move(end)) {}
  absl::StatusOr<std::unique_ptr<v1::StatusReply>> Status(const std::string&) override {
    return std::make_unique<v1::StatusReply>();
  }
  absl::StatusOr<std::unique_ptr<v1::ProgressReply>> Progress(const v1::ProgressRequest&) override {
    return std::make_unique<v1::ProgressReply>();
  }
  absl::StatusOr<std::unique_ptr<v1::JobRecording>> Record(const v1::RecordRequest&) override {
    return std::make_unique<v1::JobRecording>();
  }
  absl::Status FollowTrace(const std::string&, Nanos,
                           const std::function<void(const v1::TraceEvent&)>&) override {
    return absl::OkStatus();
  }
  absl::Status Trace(const v1::TraceRequest&, const std::function<void(const v1::TraceEvent&)>&) override {
    return absl::OkStatus();
  }
  absl::Status Watch(const v1::WatchRequest&,
                     const std::function<void(const v1::WatchEvent&)>& on_event) override {
    for (const v1::WatchEvent& event : events_) on_event(event);
    if (end_) return *end_;
    MutexLock lock(&mutex_);
    const bool cancelled = changed_.WaitFor(
        &mutex_, Nanos::Seconds(20), [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return cancelled_; });
    return cancelled ? absl::CancelledError("cancelled") : absl::InternalError("nobody cancelled");
  }
  void CancelTrace() override {
    MutexLock lock(&mutex_);
    cancelled_ = true;
    changed_.SignalAll();
  }
  absl::Status Stop(const std::string&) override { return absl::OkStatus(); }
  absl::Status Fetch(const std::string&,
                     const std::function<absl::Status(const std::string&, std::string_view)>&) override {
    return absl::OkStatus();
  }

 private:
  const std::vector<v1::WatchEvent> events_;
  const std::optional<absl::Status> end_;
  Mutex mutex_;
  CondVar changed_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

TopSource SourceOf(std::vector<v1::WatchEvent> events, std::optional<absl::Status> end) {
  TopSource source;
  source.remote = std::make_unique<FakeClient>(std::move(events), std::move(end));
  source.client = source.remote.get();
  return source;
}

struct Received {
  std::vector<v1::WatchEvent> events;
  std::optional<absl::Status> end;
};

// Collects until the end, or until `events` events have arrived.
Received Collect(TopFeed& feed, size_t events) {
  Received received;
  while (!received.end && received.events.size() < events) {
    pollfd wake = {feed.wake_fd(), POLLIN, 0};
    if (::poll(&wake, 1, 20'000) != 1) break;
    TopFeed::Update update = feed.Take();
    received.events.insert(received.events.end(), update.events.begin(), update.events.end());
    if (update.end) received.end = update.end;
  }
  return received;
}

constexpr size_t kAll = 1000;

TEST(TopFeed, DeliversEventsAndTheEndOfTheJob) {
  TopFeed feed(
      [] {
        return SourceOf({PaceOf(), SampleOf(1, Health::kHealthy)}, absl::OkStatus());
      },
      {}, Nanos::Millis(1));
  feed.Start();
  const Received received = Collect(feed, kAll);
  EXPECT_EQ(received.events.size(), 2u);
  ASSERT_TRUE(received.end.has_value());
  EXPECT_TRUE(received.end->ok());
}

TEST(TopFeed, ReconnectsAfterALostAggregator) {
  int calls = 0;
  TopFeed feed(
      [&calls]() -> absl::StatusOr<TopSource> {
        ++calls;
        if (calls == 2) return absl::UnavailableError("nobody there yet");
        return SourceOf({SampleOf(static_cast<uint64_t>(calls), Health::kHealthy)},
                        calls == 1 ? absl::UnavailableError("gone") : absl::OkStatus());
      },
      {}, Nanos::Millis(1));
  feed.Start();
  const Received received = Collect(feed, kAll);
  EXPECT_EQ(received.events.size(), 2u);
  EXPECT_TRUE(received.end.has_value() && received.end->ok());
  EXPECT_EQ(calls, 3);
}

TEST(TopFeed, GivesUpIfNoAggregatorReturns) {
  int calls = 0;
  TopFeed feed(
      [&calls]() -> absl::StatusOr<TopSource> {
        ++calls;
        return absl::UnavailableError("the daemon is away");
      },
      {}, Nanos::Millis(1));
  feed.Start();
  const Received received = Collect(feed, kAll);
  ASSERT_TRUE(received.end.has_value());
  EXPECT_EQ(received.end->message(), "the daemon is away");
  EXPECT_LE(calls, 5);
}

TEST(TopFeed, AnUnknownJobIsAnErrorAtFirstAndTheEndLater) {
  TopFeed never([] { return SourceOf({}, absl::NotFoundError("no job is named x")); }, {}, Nanos::Millis(1));
  never.Start();
  EXPECT_TRUE(absl::IsNotFound(*Collect(never, kAll).end));
  TopFeed later(
      [] { return SourceOf({SampleOf(1, Health::kHealthy)}, absl::NotFoundError("no job is named x")); }, {},
      Nanos::Millis(1));
  later.Start();
  EXPECT_TRUE(Collect(later, kAll).end->ok());
}

TEST(TopFeed, NamesAnOlderAggregator) {
  TopFeed feed([] { return SourceOf({}, absl::UnimplementedError("")); }, {}, Nanos::Millis(1));
  feed.Start();
  EXPECT_THAT(Collect(feed, kAll).end->message(), testing::HasSubstr("install the same version"));
}

TEST(TopFeed, StopsAndStartsAgain) {
  TopFeed feed([] { return SourceOf({SampleOf(1, Health::kHealthy)}, std::nullopt); }, {}, Nanos::Millis(1));
  for (int i = 0; i < 3; ++i) {
    feed.Start();
    const Received received = Collect(feed, 1);
    EXPECT_EQ(received.events.size(), 1u);
    feed.Stop();
    EXPECT_FALSE(feed.Take().end.has_value()) << "that was asked for";
  }
}

}  // namespace
}  // namespace lockstep::cli
