// Tests the hub without gRPC, with many concurrent daemons and callers, so that the thread sanitizer can
// check it.
#include "aggregator/ingest/hub.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "capture/store/records.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/columns/columns.h"

namespace lockstep::aggregator {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class TestClock final : public JobClock {
 public:
  JobTime Now() const override { return JobTime(now_); }
  void Set(JobTime now) { now_ = now.ns(); }

 private:
  std::atomic<int64_t> now_{1'000'000'000'000};
};

// Messages sent to a daemon, in order.
class Inbox final : public DaemonConnection {
 public:
  bool Send(const v1::FromAggregator& message) override {
    MutexLock lock(&mutex_);
    if (closed_) return false;
    messages_.push_back(message);
    changed_.SignalAll();
    return true;
  }
  void Close() override {
    MutexLock lock(&mutex_);
    closed_ = true;
    changed_.SignalAll();
  }
  // Returns nothing once the connection is closed.
  std::optional<v1::FromAggregator> Next() {
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, Nanos::Seconds(10), [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return closed_ || !messages_.empty();
    });
    if (messages_.empty()) return std::nullopt;
    v1::FromAggregator message = messages_.front();
    messages_.pop_front();
    return message;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<v1::FromAggregator> messages_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

std::string OneKernel() {
  columns::BlockBuilder builder(columns::Kind::kKernel);
  builder.Append(std::vector<uint64_t>(columns::Schema(columns::Kind::kKernel).size(), 1));
  std::string out;
  builder.Encode(1, 0, out);
  return out;
}

// A daemon with one rank that answers requests on the thread that calls Serve.
class Daemon {
 public:
  Daemon(Hub& hub, int rank, int world) : hub_(hub), rank_(rank), key_{"n" + std::to_string(rank), 1} {
    v1::DaemonHello hello;
    hello.mutable_version()->set_protocol_min(1);
    hello.mutable_version()->set_protocol_max(1);
    hello.set_node_id(key_.node_id);
    hello.set_session(key_.session);
    EXPECT_EQ(hub_.Connect(hello, inbox_).refused(), "");
    v1::FromDaemon message;
    v1::Rank& r = *message.mutable_ranks()->add_ranks();
    *r.mutable_process() = Process();
    r.set_rank(rank);
    r.set_world_size(world);
    r.set_job("job");
    Up(message);
  }

  // Answers messages until the hub closes the connection.
  void Serve() {
    while (const auto message = inbox_->Next()) {
      if (message->has_arm()) State(message->arm().capture(), v1::RankState::ARMED);
      if (message->has_start()) Record(message->start().capture());
      if (message->has_ack()) acknowledged_ = message->ack().through();
    }
    EXPECT_EQ(acknowledged_, sequence_);
    hub_.daemons().Disconnect(key_, inbox_.get());
  }

  v1::ProcessKey Process() const {
    v1::ProcessKey key;
    key.set_pid(100 + rank_);
    return key;
  }
  void Up(const v1::FromDaemon& message) { hub_.Handle(key_, inbox_.get(), message); }
  Inbox& inbox() { return *inbox_; }
  const DaemonKey& key() const { return key_; }

 private:
  void State(const std::string& capture, v1::RankState::State state) {
    v1::FromDaemon message;
    message.mutable_states()->set_capture(capture);
    v1::RankState& s = *message.mutable_states()->add_states();
    *s.mutable_process() = Process();
    s.set_state(state);
    Up(message);
  }
  void Record(const std::string& capture) {
    State(capture, v1::RankState::CAPTURING);
    for (int i = 0; i < 20; ++i) {
      v1::FromDaemon message;
      v1::Batch& batch = *message.mutable_batch();
      batch.set_sequence(++sequence_);
      batch.set_capture(capture);
      *batch.mutable_process() = Process();
      batch.set_incarnation(1);
      batch.set_blocks(OneKernel());
      batch.set_rows(1);
      Up(message);
      v1::FromDaemon clock;
      clock.mutable_clock()->add_samples()->set_t4_ns(1000);
      Up(clock);
    }
    v1::FromDaemon message;
    message.mutable_end()->set_capture(capture);
    *message.mutable_end()->mutable_process() = Process();
    message.mutable_end()->set_sequence(++sequence_);
    Up(message);
  }

  Hub& hub_;
  const int rank_;
  const DaemonKey key_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  uint64_t sequence_ = 0;
  uint64_t acknowledged_ = 0;
};

class HubTest : public ::testing::Test {
 protected:
  HubTest() {
    char pattern[] = "/tmp/lockstep-hub-XXXXXX";
    options_.captures.folder = ::mkdtemp(pattern);
    options_.captures.limits.progress = Nanos::Millis(5);
    options_.captures.limits.abandon_wait = Nanos::Millis(200);
  }
  ~HubTest() override { fs::remove_all(options_.captures.folder); }

  static v1::TraceRequest Request() {
    v1::TraceRequest request;
    request.set_duration_ns(Nanos::Millis(20).ns());
    return request;
  }

  HubOptions options_;
  SystemJobClock clock_;
};

// Runs a capture in which the test scripts the daemon between the start and the end.
TEST_F(HubTest, CountsDuplicateMissingAndDiscardedMessages) {
  Hub hub(options_, clock_);
  Daemon daemon(hub, 0, 1);
  std::jthread capture([&] {
    hub.captures().Trace(
        Request(), Caller::All(), [](const v1::TraceEvent&) {},
        [](const std::string&, v1::TraceFinished&) {});
  });
  const auto arm = daemon.inbox().Next();  // the first message is the Register
  const std::string id = daemon.inbox().Next()->arm().capture();
  ASSERT_NE(id, "") << arm->DebugString();
  v1::FromDaemon batch;
  batch.mutable_batch()->set_sequence(1);
  batch.mutable_batch()->set_capture(id);
  *batch.mutable_batch()->mutable_process() = daemon.Process();
  batch.mutable_batch()->set_incarnation(1);
  batch.mutable_batch()->set_blocks(OneKernel());
  batch.mutable_batch()->set_rows(1);
  daemon.Up(batch);
  daemon.Up(batch);
  v1::FromDaemon end;
  end.mutable_end()->set_sequence(5);
  end.mutable_end()->set_capture(id);
  *end.mutable_end()->mutable_process() = daemon.Process();
  for (const char* stage : {"ring", "what a newer daemon calls it"}) {
    v1::Loss* loss = end.mutable_end()->add_losses();
    loss->set_stage(stage);
    loss->set_kind(static_cast<uint32_t>(columns::Kind::kKernel));
    loss->set_records(7);
  }
  daemon.Up(end);
  batch.mutable_batch()->set_sequence(6);
  batch.mutable_batch()->set_capture("another");
  daemon.Up(batch);
  hub.Shutdown();
  capture.join();
  const MessageCounts counts = hub.counts();
  EXPECT_EQ(counts.batches, 1u);
  EXPECT_EQ(counts.duplicates, 1u);
  EXPECT_EQ(counts.missing, 3u) << "2 to 4";
  EXPECT_EQ(counts.discarded, 1u);
  metrics::Page page;
  hub.captures().losses().Write(page.Counter("lost_total", ""));
  EXPECT_THAT(page.text(), HasSubstr("{stage=\"ring\",kind=\"kernel\"} 7\n"));
  EXPECT_THAT(page.text(), HasSubstr("{stage=\"other\",kind=\"kernel\"} 7\n"));
}

// Answers the next ReadProgress on this thread with one rank of user 1000's job.
void AnswerProgress(Daemon& daemon) {
  std::optional<v1::FromAggregator> message;
  do {
    message = daemon.inbox().Next();
  } while (message && !message->has_read_progress());
  ASSERT_TRUE(message.has_value());
  v1::FromDaemon answer;
  answer.mutable_progress()->set_request(message->read_progress().request());
  answer.mutable_progress()->mutable_node()->set_node_id("another node");
  v1::Rank& rank = *answer.mutable_progress()->mutable_node()->add_processes()->mutable_rank();
  rank.set_rank(0);
  rank.set_uid(1000);
  rank.set_job("job");
  daemon.Up(answer);
  daemon.Up(answer);  // the second answer is ignored
}

TEST_F(HubTest, AsksEachDaemonForTheProgressOfItsRanks) {
  Hub hub(options_, clock_);
  Daemon daemon(hub, 0, 1);
  std::thread answering([&] { AnswerProgress(daemon); });
  const v1::ProgressReply reply = hub.Progress({}, Caller::All(), Nanos::Seconds(60));
  answering.join();
  ASSERT_EQ(reply.nodes_size(), 1);
  EXPECT_EQ(reply.nodes(0).node_id(), daemon.key().node_id) << "a daemon speaks for its own node only";
  EXPECT_EQ(reply.nodes(0).processes_size(), 1);
  EXPECT_EQ(reply.silent_hosts_size(), 0);
}

class KeptSteps final : public StepSink {
 public:
  void OnSteps(const DaemonKey& daemon, const v1::StepUpdate& steps) override {
    kept.emplace_back(daemon, steps);
  }
  std::vector<std::pair<DaemonKey, v1::StepUpdate>> kept;
};

TEST_F(HubTest, AsksDaemonsForStepsAndPassesThemOn) {
  KeptSteps sink;
  Hub hub(options_, clock_);
  hub.FollowSteps(sink);
  Daemon daemon(hub, 1, 2);
  EXPECT_TRUE(daemon.inbox().Next()->has_register_()) << "it comes before any request";
  EXPECT_TRUE(daemon.inbox().Next()->has_follow_steps());
  v1::FromDaemon message;
  message.mutable_steps()->add_processes()->add_steps()->set_number(5);
  daemon.Up(message);
  ASSERT_EQ(sink.kept.size(), 1u);
  EXPECT_EQ(sink.kept[0].first, daemon.key());
  EXPECT_EQ(sink.kept[0].second.processes(0).steps(0).number(), 5u);
}

TEST_F(HubTest, ProgressIsOnlyOfJobsThatTheCallerMaySee) {
  Hub hub(options_, clock_);
  Daemon daemon(hub, 0, 1);
  for (const auto& [uid, seen] : {std::pair<uid_t, int>{1000, 1}, {1001, 0}}) {
    std::thread answering([&] { AnswerProgress(daemon); });
    const v1::ProgressReply reply =
        hub.Progress({}, Caller::User(uid, {.capture_own = true}), Nanos::Seconds(60));
    answering.join();
    ASSERT_EQ(reply.nodes_size(), 1);
    EXPECT_EQ(reply.nodes(0).processes_size(), seen) << uid;
  }
}

TEST_F(HubTest, NamesTheHostsThatDoNotTellTheirProgress) {
  Hub hub(options_, clock_);
  Daemon older(hub, 0, 2);
  const v1::ProgressReply reply = hub.Progress({}, Caller::All(), Nanos::Millis(20));
  EXPECT_EQ(reply.nodes_size(), 0);
  EXPECT_EQ(reply.silent_hosts_size(), 1);
}

TEST_F(HubTest, ReportsDaemonHealthAndAbsentDaemons) {
  Hub hub(options_, clock_);
  Daemon daemon(hub, 0, 1);
  EXPECT_FALSE(hub.Status("", Caller::All()).daemons(0).has_health()) << "an older daemon never tells";
  v1::FromDaemon message;
  message.mutable_health()->set_spool_bytes(7);
  daemon.Up(message);
  EXPECT_EQ(hub.Status("", Caller::All()).daemons(0).health().spool_bytes(), 7u);
  EXPECT_TRUE(hub.daemons().Absent().empty());
  hub.daemons().Disconnect(daemon.key(), &daemon.inbox());
  ASSERT_EQ(hub.daemons().Absent().size(), 1u);
  EXPECT_EQ(hub.daemons().Absent()[0].node_id(), daemon.key().node_id);
  EXPECT_LT(hub.daemons().Absent()[0].away_ns(), Nanos::Seconds(60).ns());
  Daemon again(hub, 0, 1);
  EXPECT_TRUE(hub.daemons().Absent().empty());
}

TEST_F(HubTest, ConcurrentDaemonsAndCallersLoseNothing) {
  constexpr int kDaemons = 8;
  constexpr int kCaptures = 5;
  Hub hub(options_, clock_);
  std::vector<std::unique_ptr<Daemon>> daemons;
  for (int rank = 0; rank < kDaemons; ++rank)
    daemons.push_back(std::make_unique<Daemon>(hub, rank, kDaemons));
  std::vector<std::jthread> threads;
  for (auto& daemon : daemons) threads.emplace_back([&daemon] { daemon->Serve(); });
  std::jthread status_poller([&hub](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      hub.Status("", Caller::All());
      hub.counts();
    }
  });
  std::vector<std::string> captures;
  for (int i = 0; i < kCaptures; ++i) {
    const v1::TraceFinished finished = hub.captures().Trace(
        Request(), Caller::All(), [](const v1::TraceEvent&) {},
        [](const std::string&, v1::TraceFinished&) {});
    EXPECT_EQ(finished.outcome(), v1::TraceFinished::COMPLETE) << finished.text();
    captures.push_back(finished.capture());
  }
  const DaemonCounts connected = hub.daemons().counts();
  const CaptureCounts captured = hub.captures().counts();
  const MessageCounts stored = hub.counts();
  EXPECT_EQ(connected.daemons, static_cast<size_t>(kDaemons));
  EXPECT_EQ(connected.ranks, static_cast<size_t>(kDaemons));
  EXPECT_EQ(captured.captures.at(v1::TraceFinished::COMPLETE), static_cast<uint64_t>(kCaptures));
  EXPECT_EQ(captured.took.count(), static_cast<uint64_t>(kCaptures));
  EXPECT_EQ(stored.records, 20u * kDaemons * kCaptures);
  EXPECT_EQ(stored.record_bytes, stored.records * OneKernel().size());
  EXPECT_EQ(stored.ends, 1u * kDaemons * kCaptures);
  EXPECT_EQ(stored.duplicates + stored.discarded + stored.missing, 0u);
  status_poller.request_stop();
  hub.Shutdown();
  threads.clear();
  for (const std::string& id : captures) {
    const auto capture = capture::LoadRecords(options_.captures.folder + "/" + id);
    ASSERT_TRUE(capture.ok()) << capture.status();
    ASSERT_EQ(capture->ranks.size(), static_cast<size_t>(kDaemons));
    for (const capture::RankData& rank : capture->ranks) EXPECT_EQ(rank.activities.size(), 20u);
  }
}

TEST_F(HubTest, StopFromAnotherThreadEndsALongCapture) {
  Hub hub(options_, clock_);
  Daemon daemon(hub, 0, 1);
  std::jthread serving([&daemon] {
    while (const auto message = daemon.inbox().Next()) {
      v1::FromDaemon up;
      if (message->has_arm()) {
        up.mutable_states()->set_capture(message->arm().capture());
        v1::RankState& s = *up.mutable_states()->add_states();
        *s.mutable_process() = daemon.Process();
        s.set_state(v1::RankState::ARMED);
      } else if (message->has_stop()) {
        up.mutable_end()->set_capture(message->stop().capture());
        *up.mutable_end()->mutable_process() = daemon.Process();
        up.mutable_end()->set_sequence(1);
      } else {
        continue;
      }
      daemon.Up(up);
    }
  });
  v1::TraceRequest request = Request();
  request.set_duration_ns(Nanos::Seconds(300).ns());
  const v1::TraceFinished finished = hub.captures().Trace(
      request, Caller::All(),
      [&hub](const v1::TraceEvent& event) {
        if (event.has_progress() && event.progress().phase() == "capturing") {
          const v1::StatusReply status = hub.Status("", Caller::All());
          ASSERT_EQ(status.captures_size(), 1);
          ASSERT_EQ(hub.captures().Running().size(), 1u);
          EXPECT_EQ(hub.captures().Running()[0].status.phase(), "capturing");
          EXPECT_EQ(hub.captures().Running()[0].world_size, 1);
          EXPECT_TRUE(hub.captures().Stop(status.captures(0).capture(), Caller::All()).ok());
        }
      },
      [](const std::string&, v1::TraceFinished&) {});
  EXPECT_EQ(finished.outcome(), v1::TraceFinished::COMPLETE) << finished.text();
  EXPECT_FALSE(hub.captures().Stop("no-such", Caller::All()).ok());
  EXPECT_TRUE(hub.captures().Running().empty());
  hub.Shutdown();
}

TEST_F(HubTest, ANewConnectionOfADaemonReplacesTheOldOne) {
  Hub hub(options_, clock_);
  Daemon old(hub, 0, 1);
  Daemon fresh(hub, 0, 1);
  EXPECT_TRUE(old.inbox().Next()->has_register_());
  EXPECT_EQ(old.inbox().Next(), std::nullopt) << "closed";
  v1::FromDaemon ranks;
  ranks.mutable_ranks();
  old.Up(ranks);
  EXPECT_EQ(hub.Status("", Caller::All()).daemons(0).ranks_size(), 1)
      << "what still comes over the old one is not heard";
  hub.daemons().Disconnect(old.key(), &old.inbox());
  EXPECT_EQ(hub.Status("", Caller::All()).daemons_size(), 1) << "nor its end";
}

TEST_F(HubTest, RemembersTheLastJobs) {
  TestClock clock;
  Hub hub(options_, clock);
  Daemon daemon(hub, 0, 8);
  const JobKey key{"job", 0};
  ASSERT_EQ(hub.daemons().SeenJobs().count(key), 1u);
  EXPECT_EQ(hub.daemons().SeenJobs().at(key).world_size, 8);
  const JobTime left = clock.Now() + Nanos::Seconds(30);
  clock.Set(left);
  hub.daemons().Disconnect(daemon.key(), &daemon.inbox());
  EXPECT_EQ(hub.daemons().SeenJobs().at(key).last_seen, left) << "it was there until then";
  // The number of remembered jobs is bounded, because users choose their names.
  Daemon other(hub, 1, 1);
  for (int i = 0; i < 300; ++i) {
    clock.Set(clock.Now() + Nanos::Seconds(1));
    v1::FromDaemon message;
    message.mutable_ranks()->add_ranks()->set_job("job " + std::to_string(i));
    other.Up(message);
  }
  EXPECT_EQ(hub.daemons().SeenJobs().size(), 256u);
  EXPECT_EQ(hub.daemons().SeenJobs().count({"job 299", 0}), 1u);
  EXPECT_EQ(hub.daemons().SeenJobs().count(key), 0u) << "the one that was seen longest ago";
}

TEST_F(HubTest, RanksStartFourRoundTripsFromNow) {
  TestClock clock;
  Hub hub(options_, clock);
  Daemon daemon(hub, 0, 1);
  v1::FromDaemon samples;
  for (int i = 0; i < 100; ++i) {
    v1::ClockSample& s = *samples.mutable_clock()->add_samples();
    s.set_t1_ns(0);
    s.set_t2_ns(10);
    s.set_t3_ns(20);
    s.set_t4_ns(Nanos::Millis(i < 98 ? 1 : 40).ns());
  }
  daemon.Up(samples);
  std::jthread serving([&] {
    while (const auto message = daemon.inbox().Next()) {
      if (message->has_start()) {
        EXPECT_NEAR(static_cast<double>(message->start().t0_ns() - clock.Now().ns()), 160e6, 1e4);
        clock.Set(JobTime(message->start().t1_ns()));
        v1::FromDaemon up;
        up.mutable_end()->set_capture(message->start().capture());
        *up.mutable_end()->mutable_process() = daemon.Process();
        up.mutable_end()->set_sequence(1);
        daemon.Up(up);
        return;
      }
      if (!message->has_arm()) continue;
      v1::FromDaemon up;
      up.mutable_states()->set_capture(message->arm().capture());
      v1::RankState& s = *up.mutable_states()->add_states();
      *s.mutable_process() = daemon.Process();
      s.set_state(v1::RankState::ARMED);
      daemon.Up(up);
    }
  });
  const auto finished = hub.captures().Trace(
      Request(), Caller::All(), [](const v1::TraceEvent&) {}, [](const std::string&, v1::TraceFinished&) {});
  EXPECT_EQ(finished.outcome(), v1::TraceFinished::COMPLETE) << finished.text();
}

TEST_F(HubTest, RefusesAnInvalidDuration) {
  Hub hub(options_, clock_);
  Daemon daemon(hub, 0, 1);
  v1::TraceRequest request = Request();
  for (const int64_t ns : {int64_t{0}, int64_t{-5}, Nanos::Seconds(3600).ns(), Nanos::Max().ns()}) {
    request.set_duration_ns(ns);
    const auto finished = hub.captures().Trace(
        request, Caller::All(), [](const v1::TraceEvent&) {}, [](const std::string&, v1::TraceFinished&) {});
    EXPECT_EQ(finished.outcome(), v1::TraceFinished::FAILED);
    EXPECT_THAT(finished.text(), HasSubstr("--duration"));
  }
  EXPECT_TRUE(fs::is_empty(options_.captures.folder));
}

TEST_F(HubTest, ReportsTheOffsetOfTheBestExchange) {
  Hub hub(options_, clock_);
  Daemon daemon(hub, 0, 1);
  EXPECT_EQ(hub.Status("", Caller::All()).daemons(0).clock_bound_ns(), 0) << "unknown";
  v1::FromDaemon samples;
  // The daemon's clock is 1000 ns ahead; the second exchange has the shortest round trip.
  for (const int64_t trip : {500, 20, 300}) {
    v1::ClockSample& s = *samples.mutable_clock()->add_samples();
    s.set_t1_ns(1'000'000);
    s.set_t2_ns(1'000'000 - 1000 + trip / 2);
    s.set_t3_ns(1'000'000 - 1000 + trip / 2);
    s.set_t4_ns(1'000'000 + trip);
  }
  daemon.Up(samples);
  EXPECT_EQ(hub.Status("", Caller::All()).daemons(0).clock_offset_ns(), 1000);
  EXPECT_EQ(hub.Status("", Caller::All()).daemons(0).clock_bound_ns(), 10);
}

}  // namespace
}  // namespace lockstep::aggregator
