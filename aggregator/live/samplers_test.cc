// Tests samples over real streams with a scripted daemon.
#include "aggregator/live/samplers.h"

#include <atomic>
#include <future>

#include "aggregator/ingest/ingest_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using aggregator::Caller;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// Collects events and leaves after a number of samples.
class Watcher final : public aggregator::WatchSink {
 public:
  explicit Watcher(size_t samples) : samples_(samples) {}
  bool Write(const v1::WatchEvent& event) override {
    events.push_back(event);
    got += event.has_sample();
    pauses += event.has_pause();
    return got < samples_;
  }
  bool left() const override { return leave; }
  std::vector<v1::WatchEvent> events;
  std::atomic<size_t> got = 0;
  std::atomic<size_t> pauses = 0;
  std::atomic<bool> leave = false;

 private:
  const size_t samples_;
};

class SamplersTest : public aggregator::IngestTest {
 protected:
  void SetUp() override {
    IngestTest::SetUp();
    Serve();
    SamplersOptions options;
    options.gone_after = Nanos::Millis(300);
    options.read = [this](const std::string& folder, uid_t) -> absl::StatusOr<Summary> {
      ++read_;
      EXPECT_TRUE(fs::exists(folder + "/records")) << folder;
      Summary summary;
      summary.sample.set_verdict("as it was read");
      return summary;
    };
    samplers_ = std::make_unique<Samplers>(hub_->captures(), options);
  }
  void TearDown() override {
    stop_ = true;
    for (auto& daemon : daemons_) daemon->Break();
    if (playing_.valid()) playing_.get();
    samplers_ = nullptr;
    IngestTest::TearDown();
  }

  // Arms and ends every sample that is requested.
  void Play(aggregator::FakeDaemon& daemon) {
    playing_ = std::async(std::launch::async, [this, &daemon] {
      uint64_t sequence = 0;
      while (!stop_) {
        const auto message = daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm(); });
        if (!message.has_arm()) continue;
        const std::string last = message.arm().capture();
        EXPECT_TRUE(message.arm().sample());
        daemon.SendState(last, 0, v1::RankState::ARMED);
        daemon.SendBatch(++sequence, last, 0, aggregator::Kernels(5), 5);
        daemon.SendEnd(++sequence, last, 0);
      }
    });
  }

  static v1::WatchRequest Request(Nanos every = Nanos::Seconds(1)) {
    v1::WatchRequest request;
    request.set_every_ns(every.ns());
    request.set_window_ns(Nanos::Millis(20).ns());
    return request;
  }

  size_t FoldersIn(const std::string& folder) const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_ + "/" + folder), fs::directory_iterator()));
  }

  std::unique_ptr<Samplers> samplers_;
  std::future<void> playing_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> read_ = 0;
};

TEST_F(SamplersTest, StreamsSamplesAndRemovesTheirFolders) {
  Play(DaemonWithRanks("n0", 0, 1, 1));
  Watcher watcher(2);
  EXPECT_TRUE(absl::IsCancelled(samplers_->Watch(Request(), Caller::All(), watcher)));
  ASSERT_GE(watcher.events.size(), 3u);
  EXPECT_EQ(watcher.events[0].pace().every_ns(), Nanos::Seconds(1).ns());
  EXPECT_EQ(watcher.events[0].pace().job_name(), "job");
  const v1::Sample& second = watcher.events.back().sample();
  EXPECT_EQ(second.number(), 2u);
  EXPECT_EQ(second.verdict(), "as it was read");
  EXPECT_EQ(second.window_ns(), Nanos::Millis(20).ns());
  EXPECT_EQ(second.sampled_ns(), Nanos::Millis(40).ns());
  EXPECT_EQ(FoldersIn("samples"), 0u);
  EXPECT_EQ(FoldersIn("captures"), 0u);
  const aggregator::CaptureCounts counts = hub_->captures().counts();
  EXPECT_EQ(counts.samples.at(v1::TraceFinished::COMPLETE), 2u);
  EXPECT_TRUE(counts.captures.empty()) << "they are no captures";
  EXPECT_EQ(hub_->Status("", Caller::All()).captures_size(), 0);
}

TEST_F(SamplersTest, TwoWatchersShareTheSamples) {
  Play(DaemonWithRanks("n0", 0, 1, 1));
  Watcher first(4), second(2);
  auto watching =
      std::async(std::launch::async, [&] { return samplers_->Watch(Request(), Caller::All(), first); });
  while (first.got == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(absl::IsCancelled(samplers_->Watch(Request(Nanos::Seconds(30)), Caller::All(), second)));
  const absl::Status watched = watching.get();
  EXPECT_TRUE(absl::IsCancelled(watched)) << watched;
  EXPECT_EQ(second.events[0].pace().watchers(), 2u);
  EXPECT_EQ(second.events[0].pace().every_ns(), Nanos::Seconds(1).ns()) << "the more frequent";
  EXPECT_EQ(second.events[1].sample().number(), 1u) << "what was there before";
  EXPECT_EQ(read_, 4) << "and none twice";
}

TEST_F(SamplersTest, ReportsTheEndOfTheJob) {
  aggregator::FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  Play(daemon);
  Watcher watcher(100);
  auto watching =
      std::async(std::launch::async, [&] { return samplers_->Watch(Request(), Caller::All(), watcher); });
  while (watcher.got == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  daemon.SendRanks(0, 0, 1);
  EXPECT_TRUE(watching.get().ok());
  EXPECT_GE(watcher.events.back().ended().samples(), 1u);
}

TEST_F(SamplersTest, ARunningCaptureTakesPrecedence) {
  aggregator::FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto capture = Trace(Nanos::Seconds(20));
  const std::string id = ArmAll(daemon);
  Watcher watcher(100);
  auto watching =
      std::async(std::launch::async, [&] { return samplers_->Watch(Request(), Caller::All(), watcher); });
  while (hub_->Status("", Caller::All()).captures_size() != 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  while (watcher.pauses == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(hub_->captures().Stop(id, Caller::All()).ok());
  daemon.SendEnd(1, id, 0);
  capture.get();
  watcher.leave = true;
  const absl::Status watched = watching.get();
  EXPECT_TRUE(absl::IsCancelled(watched)) << watched;
  ASSERT_GE(watcher.events.size(), 2u);
  EXPECT_TRUE(watcher.events[1].pause().gave_way());
  EXPECT_THAT(watcher.events[1].pause().reason(), HasSubstr("is being captured already (" + id));
  EXPECT_EQ(read_, 0);
}

TEST_F(SamplersTest, DoesNotReadASampleThatGaveWay) {
  aggregator::FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  Watcher watcher(100);
  auto watching =
      std::async(std::launch::async, [&] { return samplers_->Watch(Request(), Caller::All(), watcher); });
  const auto arm = daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm(); }).arm();
  v1::FromDaemon taken;
  taken.mutable_states()->set_capture(arm.capture());
  v1::RankState& state = *taken.mutable_states()->add_states();
  *state.mutable_process() = arm.processes(0);
  state.set_state(v1::RankState::FAILED);
  state.set_refusal(v1::RankState::CAPTURED);
  state.set_text("the sample gave way to capture x");
  daemon.Write(taken);
  daemon.SendEnd(1, arm.capture(), 0);
  while (watcher.pauses == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  watcher.leave = true;
  const absl::Status watched = watching.get();
  EXPECT_TRUE(absl::IsCancelled(watched)) << watched;
  ASSERT_GE(watcher.events.size(), 2u);
  EXPECT_EQ(watcher.events[1].pause().reason(), "rank 0: the sample gave way to capture x");
  EXPECT_EQ(read_, 0);
  EXPECT_EQ(FoldersIn("samples"), 0u);
}

TEST_F(SamplersTest, RefusesOtherUsers) {
  Play(DaemonWithRanks("n0", 0, 1, 1));
  Watcher watcher(1);
  v1::WatchRequest request = Request();
  request.set_job("nobody");
  EXPECT_TRUE(absl::IsNotFound(samplers_->Watch(request, Caller::All(), watcher)));
  EXPECT_TRUE(absl::IsInvalidArgument(samplers_->Watch(Request(Nanos::Millis(30)), Caller::All(), watcher)));
  request.set_job("job");
  EXPECT_TRUE(absl::IsPermissionDenied(
      samplers_->Watch(request, Caller::User(4242, {.capture_own = true}), watcher)));
  samplers_->Shutdown();
  EXPECT_TRUE(absl::IsUnavailable(samplers_->Watch(Request(), Caller::All(), watcher)));
  EXPECT_TRUE(watcher.events.empty());
}

TEST_F(SamplersTest, ShutdownEndsAWaitingWatch) {
  Play(DaemonWithRanks("n0", 0, 1, 1));
  Watcher watcher(100);
  auto watching = std::async(std::launch::async, [&] {
    return samplers_->Watch(Request(Nanos::Seconds(600)), Caller::All(), watcher);
  });
  while (watcher.got == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  samplers_->Shutdown();
  EXPECT_TRUE(absl::IsUnavailable(watching.get()));
}

}  // namespace
}  // namespace lockstep::aggregator
