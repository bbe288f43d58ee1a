// Tests captures whose aggregator is killed and restarted, over real gRPC streams with scripted daemons.
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "aggregator/ingest/ingest_fixture.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class RestartTest : public IngestTest {
 protected:
  // A capture that runs, with one stored batch of ten kernels.
  Started StartWithOneBatch(SessionLimits limits = Quick(), Nanos duration = Nanos::Seconds(60)) {
    Started capture = StartCapture(duration, limits);
    capture.daemon.SendBatch(1, capture.id, 0, Kernels(10), 10);
    EXPECT_TRUE(capture.daemon.WaitForAck(1));
    return capture;
  }
  // The aggregator is killed: what it has written until now is all that remains of it. `damage` may change
  // that.
  void Kill(const std::function<void()>& damage = [] {}) {
    const fs::path captures = folder_ + "/captures";
    const fs::path remains = folder_ + "/remains";
    fs::copy(captures, remains, fs::copy_options::recursive);
    for (auto& daemon : daemons_) daemon->Break();
    Close();
    fs::remove_all(captures);
    fs::rename(remains, captures);
    damage();
  }
  void Restart(SessionLimits limits = Quick()) {
    Serve(limits);
    hub_->Resume([this](const std::string& folder, v1::TraceFinished&) {
      MutexLock lock(&mutex_);
      analysed_.push_back(fs::path(folder).filename());
    });
  }
  static std::future<TraceRun> FollowOn(v1::Control::Stub& stub, const std::string& id) {
    v1::TraceRequest request;
    request.set_follow(id);
    return std::async(std::launch::async, [&stub, request] { return Run(stub, request); });
  }
  TraceRun Follow(const std::string& id) { return FollowOn(*stub_, id).get(); }
  std::string PathOf(const std::string& id, const std::string& file) const {
    return folder_ + "/captures/" + id + "/" + file;
  }
  std::string RecordsOf(const std::string& id) const {
    for (const auto& entry : fs::directory_iterator(PathOf(id, "records"))) {
      if (capture::ParseRecordsFileName(entry.path().filename().string())) return entry.path();
    }
    ADD_FAILURE() << "no records of " << id;
    return "";
  }
  static void AppendTo(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::app) << text;
  }

  // The captures for which a report was made.
  std::vector<std::string> Analysed() {
    MutexLock lock(&mutex_);
    return analysed_;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> analysed_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(RestartTest, ContinuesACaptureInsideItsWindow) {
  Started capture = StartWithOneBatch();
  FakeDaemon& daemon = capture.daemon;
  Kill();
  Restart();
  const v1::Register again = daemon.Connect();
  EXPECT_EQ(again.acked_sequence(), 1u);
  EXPECT_THAT(again.running().captures(), ElementsAre(capture.id));
  EXPECT_TRUE(daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_start(); }).has_start())
      << "the old process may not have sent it";
  std::future<TraceRun> following = FollowOn(*stub_, capture.id);
  daemon.SendBatch(2, capture.id, 0, Kernels(20, 100), 20);
  daemon.SendEnd(3, capture.id, 0, /*lost=*/4);
  const TraceRun run = following.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::COMPLETE) << run.finished.text();
  EXPECT_EQ(run.events.front().accepted().capture(), capture.id);
  EXPECT_THAT(Analysed(), ElementsAre(capture.id));
  EXPECT_FALSE(fs::exists(PathOf(capture.id, "journal")));
  const capture::Capture loaded = Load(capture.id);
  EXPECT_EQ(loaded.ranks[0].activities.size(), 30u);
  EXPECT_EQ(loaded.ranks[0].losses.size(), 1u);
  EXPECT_THAT(loaded.notes, Contains(HasSubstr("the aggregator was restarted and resumed the capture")));
  EXPECT_FALSE(loaded.partial());
}

TEST_F(RestartTest, StoresWhatIsSentAgainOnce) {
  Started capture = StartWithOneBatch();
  FakeDaemon& daemon = capture.daemon;
  Kill();
  Restart();
  daemon.Connect();
  daemon.SendBatch(1, capture.id, 0, Kernels(10), 10);
  daemon.SendEnd(2, capture.id, 0);
  EXPECT_EQ(Follow(capture.id).finished.outcome(), v1::TraceFinished::COMPLETE);
  EXPECT_EQ(Load(capture.id).ranks[0].activities.size(), 10u);
  EXPECT_EQ(hub_->counts().duplicates, 1u);
}

TEST_F(RestartTest, NumbersOfOtherCapturesAreNoHole) {
  Started capture = StartWithOneBatch();
  FakeDaemon& daemon = capture.daemon;
  Kill();
  Restart();
  daemon.Connect();
  // Another capture, which had ended before, had numbers 2 to 8.
  daemon.SendEnd(9, capture.id, 0);
  EXPECT_EQ(Follow(capture.id).finished.outcome(), v1::TraceFinished::COMPLETE);
  EXPECT_THAT(Load(capture.id).ranks[0].losses, IsEmpty());
}

TEST_F(RestartTest, ClosesACaptureWhoseWindowHasPassed) {
  Started capture = StartWithOneBatch(Quick(), Nanos::Millis(20));
  FakeDaemon& daemon = capture.daemon;
  Kill();
  SessionLimits limits = Quick();
  limits.quiet = Nanos();
  Restart(limits);
  const TraceRun run = Follow(capture.id);
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::PARTIAL);
  EXPECT_THAT(run.finished.text(), HasSubstr("the aggregator ended before its last records arrived"));
  EXPECT_THAT(daemon.Connect().running().captures(), IsEmpty()) << "the ranks are free at once";
  const capture::Capture loaded = Load(capture.id);
  EXPECT_EQ(loaded.ranks[0].activities.size(), 10u);
  EXPECT_TRUE(loaded.partial());
}

TEST_F(RestartTest, EndsACaptureThatHadNotBegun) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto running = Trace();
  const std::string id =
      daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm(); }).arm().capture();
  Kill();
  running.wait();
  Restart();
  const TraceRun run = Follow(id);
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::FAILED);
  EXPECT_THAT(run.finished.text(), HasSubstr("restarted before the capture began"));
}

TEST_F(RestartTest, CutsOffWhatWasNotAcknowledged) {
  Started capture = StartWithOneBatch();
  FakeDaemon& daemon = capture.daemon;
  Kill([&] {
    AppendTo(RecordsOf(capture.id), Kernels(5).substr(0, 20));
    AppendTo(PathOf(capture.id, "journal"), "\x7ftorn");
  });
  Restart();
  EXPECT_EQ(daemon.Connect().acked_sequence(), 1u);
  daemon.SendBatch(2, capture.id, 0, Kernels(5, 100), 5);
  daemon.SendEnd(3, capture.id, 0);
  EXPECT_EQ(Follow(capture.id).finished.outcome(), v1::TraceFinished::COMPLETE);
  EXPECT_EQ(Load(capture.id).ranks[0].activities.size(), 15u);
}

TEST_F(RestartTest, AsksAgainForWhatTheMachineLost) {
  Started capture = StartCapture(Nanos::Seconds(60));
  FakeDaemon& daemon = capture.daemon;
  daemon.SendBatch(1, capture.id, 0, Kernels(10), 10);
  daemon.SendBatch(2, capture.id, 0, Kernels(10, 100), 10);
  ASSERT_TRUE(daemon.WaitForAck(2));
  const uint64_t whole = fs::file_size(RecordsOf(capture.id));
  Kill([&] { fs::resize_file(RecordsOf(capture.id), whole - 1); });
  Restart();
  EXPECT_EQ(daemon.Connect().acked_sequence(), 1u);
  daemon.SendBatch(2, capture.id, 0, Kernels(10, 100), 10);
  daemon.SendEnd(3, capture.id, 0);
  EXPECT_EQ(Follow(capture.id).finished.outcome(), v1::TraceFinished::COMPLETE);
  EXPECT_EQ(Load(capture.id).ranks[0].activities.size(), 20u);
}

TEST_F(RestartTest, KeepsTheCountedLosses) {
  Started capture = StartCapture(Nanos::Seconds(60));
  FakeDaemon& daemon = capture.daemon;
  v1::FromDaemon message;
  v1::Gap& gap = *message.mutable_gap();
  gap.set_first_sequence(1);
  gap.set_last_sequence(1);
  gap.set_capture(capture.id);
  *gap.mutable_process() = FakeDaemon::Process(0);
  v1::Loss& loss = *gap.add_losses();
  loss.set_stage("spool");
  loss.set_kind(2);
  loss.set_records(33);
  daemon.Write(message);
  daemon.SendBatch(2, capture.id, 0, "these bytes are no block of any kind, however long", 7);
  daemon.SendBatch(5, capture.id, 0, Kernels(10), 10);  // 3 and 4 never came
  ASSERT_TRUE(daemon.WaitForAck(5));
  Kill();
  Restart();
  daemon.Connect();
  daemon.SendEnd(6, capture.id, 0);
  Follow(capture.id);
  const std::vector<capture::Loss> losses = Load(capture.id).ranks[0].losses;
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_EQ(losses[0].records, 33u);
  EXPECT_EQ(losses[1].records, 7u);
  EXPECT_THAT(losses[2].reason, HasSubstr("2 batches of the node never arrived"));
}

TEST_F(RestartTest, ContinuesATraceFileInItsMiddle) {
  Serve();
  FakeDaemon& daemon = Daemon("n0", 1);
  daemon.Connect();
  v1::FromDaemon message;
  v1::Rank& rank = *message.mutable_ranks()->add_ranks();
  *rank.mutable_process() = FakeDaemon::Process(0);
  rank.set_world_size(1);
  rank.set_job("job");
  rank.set_via("kineto");
  rank.set_kineto(true);
  daemon.Write(message);
  while (SeenRanks() < 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  auto running = Trace(Nanos::Seconds(60));
  const std::string id = ArmAll(daemon);
  WaitForStart(daemon);
  daemon.SendTraceFile(1, id, 0, 0, "first ", [](v1::TraceFile&) {});
  ASSERT_TRUE(daemon.WaitForAck(1));
  Kill();
  running.wait();
  Restart();
  EXPECT_EQ(daemon.Connect().acked_sequence(), 1u);
  daemon.SendTraceFile(2, id, 0, 6, "second", [](v1::TraceFile& piece) { piece.set_last(true); });
  daemon.SendEnd(3, id, 0);
  EXPECT_EQ(Follow(id).finished.outcome(), v1::TraceFinished::COMPLETE);
  std::ifstream file(PathOf(id, "records/" + capture::TraceFileName({RankId(0), 0})));
  std::string text;
  std::getline(file, text);
  EXPECT_EQ(text, "first second");
}

TEST_F(RestartTest, TheLimitOfACaptureCountsWhatWasStoredBefore) {
  SessionLimits limits = Quick();
  limits.store.rows = 15;
  Started capture = StartWithOneBatch(limits);
  FakeDaemon& daemon = capture.daemon;
  Kill();
  Restart(limits);
  daemon.Connect();
  daemon.SendBatch(2, capture.id, 0, Kernels(10, 100), 10);
  daemon.SendEnd(3, capture.id, 0);
  const TraceRun run = Follow(capture.id);
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::FAILED);
  EXPECT_THAT(run.finished.text(), HasSubstr("more than 15 records (--capture-records)"));
  const capture::Capture loaded = Load(capture.id);
  EXPECT_EQ(loaded.ranks[0].activities.size(), 10u);
  EXPECT_TRUE(loaded.partial()) << "the report of a capture that was cut says so";
}

TEST_F(RestartTest, ACaptureThatHadFailedStaysFailed) {
  SessionLimits limits = Quick();
  limits.store.rows = 5;
  Started capture = StartWithOneBatch(limits);
  FakeDaemon& daemon = capture.daemon;
  Kill();
  Restart();
  daemon.Connect();
  daemon.SendEnd(2, capture.id, 0);
  const TraceRun run = Follow(capture.id);
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::FAILED);
  EXPECT_THAT(run.finished.text(), HasSubstr("more than 5 records (--capture-records)"));
  EXPECT_TRUE(Load(capture.id).partial());
}

TEST_F(RestartTest, LeavesACaptureOfAnotherFormatAlone) {
  Started capture = StartWithOneBatch();
  Kill([&] { std::ofstream(PathOf(capture.id, "journal"), std::ios::trunc) << "something else"; });
  Restart();
  EXPECT_EQ(Follow(capture.id).status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Load(capture.id).ranks[0].activities.size(), 10u) << "what there is can be read";
}

TEST_F(RestartTest, MakesTheReportThatIsMissing) {
  Started capture = StartCapture();
  capture.daemon.SendEnd(1, capture.id, 0);
  EXPECT_EQ(capture.running.get().finished.outcome(), v1::TraceFinished::COMPLETE);
  Kill([&] { AppendTo(PathOf(capture.id, "journal"), "left"); });
  Restart();
  hub_->captures().WaitForRestored();
  EXPECT_THAT(Analysed(), ElementsAre(capture.id));
  EXPECT_FALSE(fs::exists(PathOf(capture.id, "journal")));
}

TEST_F(RestartTest, ASecondRestartContinuesToo) {
  Started capture = StartWithOneBatch();
  FakeDaemon& daemon = capture.daemon;
  Kill();
  Restart();
  daemon.Connect();
  daemon.SendBatch(2, capture.id, 0, Kernels(10, 100), 10);
  ASSERT_TRUE(daemon.WaitForAck(2));
  Kill();
  Restart();
  EXPECT_EQ(daemon.Connect().acked_sequence(), 2u);
  daemon.SendEnd(3, capture.id, 0);
  EXPECT_EQ(Follow(capture.id).finished.outcome(), v1::TraceFinished::COMPLETE);
  EXPECT_EQ(Load(capture.id).ranks[0].activities.size(), 20u);
}

TEST_F(RestartTest, ACallerThatComesBackKeepsItsCapture) {
  SessionLimits limits = Quick();
  limits.caller_wait = Nanos::Millis(600);
  Serve(limits);
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  v1::TraceRequest request;
  request.set_duration_ns(Nanos::Seconds(60).ns());
  grpc::ClientContext context;
  auto reader = stub_->Trace(&context, request);
  const std::string id = ArmAll(daemon);
  WaitForStart(daemon);
  context.TryCancel();
  reader->Finish();
  std::future<TraceRun> following = FollowOn(*stub_, id);
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  ASSERT_EQ(hub_->captures().Running().size(), 1u);
  EXPECT_EQ(hub_->captures().Running()[0].status.phase(), "capturing");
  daemon.SendEnd(1, id, 0);
  EXPECT_EQ(following.get().finished.outcome(), v1::TraceFinished::COMPLETE);
  EXPECT_EQ(Follow(id).finished.outcome(), v1::TraceFinished::COMPLETE) << "also after its end";
}

TEST_F(RestartTest, FollowsNoCaptureOfAnotherUser) {
  Started capture = StartCapture(Nanos::Seconds(60));
  const auto nothing = [](const v1::TraceEvent&) { return true; };
  EXPECT_EQ(hub_->captures().Follow(capture.id, Caller::User(4242, {.capture_own = true}), nothing).code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(hub_->captures().Follow("other", Caller::All(), nothing).code(), absl::StatusCode::kNotFound);
  hub_->Shutdown();
  capture.running.wait();
}

}  // namespace
}  // namespace lockstep::aggregator
