// Tests `lockstep trace` from the first event to the folder, with a scripted aggregator.
#include "cli/commands/trace_session.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/files/own_folder.h"
#include "base/mutex.h"
#include "capture/store/records_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/columns/columns.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class FakeAggregator final : public AggregatorClient {
 public:
  absl::StatusOr<std::unique_ptr<v1::StatusReply>> Status(const std::string&) override {
    return std::make_unique<v1::StatusReply>();
  }
  absl::StatusOr<std::unique_ptr<v1::ProgressReply>> Progress(const v1::ProgressRequest&) override {
    return std::make_unique<v1::ProgressReply>();
  }
  absl::StatusOr<std::unique_ptr<v1::JobRecording>> Record(const v1::RecordRequest&) override {
    return std::make_unique<v1::JobRecording>();
  }
  absl::Status Trace(const v1::TraceRequest&,
                     const std::function<void(const v1::TraceEvent&)>& on_event) override {
    running = true;
    for (const v1::TraceEvent& event : events) {
      if (WasCancelled()) return absl::CancelledError("cancelled");
      // The aggregator analyses until it sends the last event.
      if (event.has_finished()) running = false;
      on_event(event);
    }
    if (wait_for_stop) {
      MutexLock lock(&mutex);
      changed.WaitFor(&mutex, Nanos::Seconds(5),
                      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return !stopped.empty() || cancelled; });
      if (cancelled) return absl::CancelledError("cancelled");
      on_event(last);
    }
    return end;
  }
  absl::Status FollowTrace(const std::string& capture, Nanos,
                           const std::function<void(const v1::TraceEvent&)>& on_event) override {
    followed.push_back(capture);
    if (follow_errors.size() >= followed.size()) return follow_errors[followed.size() - 1];
    for (const v1::TraceEvent& event : follow_events) on_event(event);
    return absl::OkStatus();
  }
  absl::Status Watch(const v1::WatchRequest&, const std::function<void(const v1::WatchEvent&)>&) override {
    return end;
  }
  void CancelTrace() override {
    MutexLock lock(&mutex);
    cancelled = true;
    changed.SignalAll();
  }
  absl::Status Stop(const std::string& capture) override {
    MutexLock lock(&mutex);
    stopped = capture;
    changed.SignalAll();
    return absl::OkStatus();
  }
  bool WasCancelled() {
    MutexLock lock(&mutex);
    return cancelled;
  }
  std::string StoppedCapture() {
    MutexLock lock(&mutex);
    return stopped;
  }
  absl::Status Fetch(
      const std::string&,
      const std::function<absl::Status(const std::string&, std::string_view)>& on_bytes) override {
    fetches.push_back(running ? "early" : "late");
    if (fetch_errors > 0) {
      --fetch_errors;
      const auto& [name, bytes] = files.front();
      const absl::Status written = on_bytes(name, std::string_view(bytes).substr(0, 7));
      return written.ok() ? absl::UnavailableError("lost") : written;
    }
    for (const auto& [name, bytes] : files) {
      const size_t half = bytes.size() / 2;
      if (absl::Status s = on_bytes(name, std::string_view(bytes).substr(0, half)); !s.ok()) return s;
      if (absl::Status s = on_bytes(name, std::string_view(bytes).substr(half)); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  std::vector<v1::TraceEvent> events;
  v1::TraceEvent last;
  bool wait_for_stop = false;
  absl::Status end;
  // FollowTrace returns each error once, and then sends the events.
  std::vector<absl::Status> follow_errors;
  std::vector<v1::TraceEvent> follow_events;
  std::vector<std::string> followed;
  int fetch_errors = 0;  // Fetch is lost so often after the first bytes
  bool running = false;
  std::vector<std::string> fetches;  // "early" if the capture had not finished
  std::vector<std::pair<std::string, std::string>> files;
  Mutex mutex;
  CondVar changed;
  bool cancelled ABSL_GUARDED_BY(mutex) = false;
  std::string stopped ABSL_GUARDED_BY(mutex);
};

class TraceSessionTest : public ::testing::Test {
 protected:
  TraceSessionTest() {
    char pattern[] = "/tmp/lockstep-session-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    output_.pattern = folder_ + "/capture";
    MakeRecords();
    v1::TraceEvent accepted;
    accepted.mutable_accepted()->set_capture("c1");
    accepted.mutable_accepted()->set_job("4711");
    accepted.mutable_accepted()->set_world_size(1);
    accepted.mutable_accepted()->add_ranks()->set_rank(0);
    aggregator_.events = {accepted};
  }
  ~TraceSessionTest() override { fs::remove_all(folder_); }

  void MakeRecords(const std::string& state = "done") {
    fs::remove_all(folder_ + "/made");
    capture::Manifest manifest;
    manifest.id = "c1";
    manifest.job = "4711";
    manifest.world_size = 1;
    manifest.complete = true;
    manifest.hosts = {{"node", "n0", {}}};
    capture::ManifestProcess process;
    process.rank = RankId(0);
    process.host = 0;
    process.window = {HostTime(0), HostTime(1'000'000)};
    process.state = state;
    manifest.processes = {process};
    auto writer = *capture::RecordsWriter::Create(folder_ + "/made", manifest);
    columns::BlockBuilder builder(columns::Kind::kKernel);
    for (uint64_t i = 0; i < 100; ++i) {
      std::vector<uint64_t> row(columns::Schema(columns::Kind::kKernel).size(), 0);
      row[columns::kernel::kStart] = 1000 + i * 100;
      row[columns::kernel::kDuration] = 50;
      builder.Append(row);
    }
    std::string blocks;
    builder.Encode(1, 0, blocks);
    ASSERT_TRUE(writer->Append({0, 1}, RankId(0), blocks).ok());
    manifest.processes[0].files = writer->Files(0);
    const std::string name = manifest.processes[0].files[0].name;
    ASSERT_TRUE(writer->Close(manifest).ok());
    aggregator_.files = {{name, blocks}, {"manifest.json", Read(folder_ + "/made/records/manifest.json")}};
  }

  static v1::TraceEvent Finished(v1::TraceFinished::Outcome outcome, const std::string& text = "",
                                 int64_t t0 = 5) {
    v1::TraceEvent event;
    event.mutable_finished()->set_outcome(outcome);
    event.mutable_finished()->set_capture("c1");
    event.mutable_finished()->set_text(text);
    event.mutable_finished()->set_t0_ns(t0);
    return event;
  }
  void AddPhases(const std::vector<const char*>& phases) {
    for (const char* phase : phases) {
      v1::TraceEvent event;
      event.mutable_progress()->set_phase(phase);
      aggregator_.events.push_back(event);
    }
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  // Runs the session and captures stdout and stderr.
  ExitCode Run() {
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const ExitCode code = TraceSession(aggregator_, output_).Run({});
    stdout_ = ::testing::internal::GetCapturedStdout();
    stderr_ = ::testing::internal::GetCapturedStderr();
    return code;
  }

  // Like Run, with stderr on a terminal, whose buffer holds the whole output.
  void RunOnTerminal() {
    const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ASSERT_TRUE(terminal >= 0 && ::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0);
    const int other_side = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
    const int before = ::dup(STDERR_FILENO);
    ::dup2(other_side, STDERR_FILENO);
    ::testing::internal::CaptureStdout();
    TraceSession(aggregator_, output_).Run({});
    stdout_ = ::testing::internal::GetCapturedStdout();
    ::dup2(before, STDERR_FILENO);
    ::close(before);
    ::close(other_side);
    char piece[4096];
    for (ssize_t n = 0; (n = ::read(terminal, piece, sizeof piece)) > 0;)
      stderr_.append(piece, static_cast<size_t>(n));
    ::close(terminal);
  }

  std::string folder_;
  FakeAggregator aggregator_;
  TraceOutput output_;
  std::string stdout_, stderr_;
};

TEST_F(TraceSessionTest, ACompleteCaptureWritesTheFolderAndPrintsTheReport) {
  aggregator_.events.push_back(Finished(v1::TraceFinished::COMPLETE));
  EXPECT_EQ(Run(), ExitCode::kDone) << stderr_;
  for (const char* name : {"report.json", "report.txt", "merged.pftrace", "records/manifest.json"}) {
    EXPECT_TRUE(fs::exists(folder_ + "/capture/" + name)) << name;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ + "/capture/traces"), fs::directory_iterator()), 1);
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    EXPECT_THAT(entry.path().string(), ::testing::Not(HasSubstr(".partial")));
  }
  EXPECT_FALSE(stdout_.empty());
  EXPECT_THAT(stdout_, ::testing::Not(HasSubstr("lockstep: "))) << "stdout holds the report only";
  EXPECT_THAT(stderr_, HasSubstr("wrote " + folder_ + "/capture"));
}

TEST_F(TraceSessionTest, AnalysesTheRecordsWhileTheAggregatorDoes) {
  AddPhases({"draining", "analysing"});
  aggregator_.events.push_back(Finished(v1::TraceFinished::PARTIAL, "rank 0 recorded nothing"));
  EXPECT_EQ(Run(), ExitCode::kPartial) << "the outcome comes after the report";
  EXPECT_THAT(aggregator_.fetches, ::testing::ElementsAre("early"));
  const std::string first_line = stdout_.substr(0, stdout_.find('\n'));
  EXPECT_FALSE(first_line.empty());
  EXPECT_EQ(stdout_.find(first_line), stdout_.rfind(first_line)) << "printed once";
  EXPECT_THAT(stderr_, HasSubstr("rank 0 recorded nothing"));
  EXPECT_TRUE(fs::exists(folder_ + "/capture/report.json"));
}

TEST_F(TraceSessionTest, FetchesAtTheEndIfTheEarlyFetchFails) {
  AddPhases({"draining", "analysing"});
  aggregator_.events.push_back(Finished(v1::TraceFinished::COMPLETE));
  aggregator_.fetch_errors = 1;
  EXPECT_EQ(Run(), ExitCode::kDone) << stderr_;
  EXPECT_THAT(aggregator_.fetches, ::testing::ElementsAre("early", "late"));
  EXPECT_FALSE(stdout_.empty());
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_THAT(entry.path().string(), ::testing::Not(HasSubstr(".partial")));
}

TEST_F(TraceSessionTest, FetchesNothingOfACaptureThatNeverBegan) {
  AddPhases({"arming", "analysing"});
  aggregator_.events.push_back(Finished(v1::TraceFinished::TIMED_OUT, "no rank armed", 0));
  EXPECT_EQ(Run(), ExitCode::kTimedOut);
  EXPECT_TRUE(aggregator_.fetches.empty());
  EXPECT_TRUE(stdout_.empty());
}

TEST_F(TraceSessionTest, MissingRanksAreNamedWithTheCodeForPartial) {
  aggregator_.events[0].mutable_accepted()->set_world_size(3);
  aggregator_.events[0].mutable_accepted()->add_missing_ranks(1);
  aggregator_.events[0].mutable_accepted()->add_missing_ranks(2);
  aggregator_.events.push_back(Finished(v1::TraceFinished::PARTIAL, "ranks 1, 2 reached no daemon"));
  EXPECT_EQ(Run(), ExitCode::kPartial);
  EXPECT_THAT(stderr_, HasSubstr("missing: ranks 1, 2"));
  EXPECT_THAT(stderr_, HasSubstr("reached no daemon"));
  EXPECT_TRUE(fs::exists(folder_ + "/capture/report.json")) << "what there is, is written";
}

TEST_F(TraceSessionTest, EachRankIsAcknowledgedByName) {
  v1::TraceEvent event;
  event.mutable_rank()->set_rank(0);
  event.mutable_rank()->set_host_name("n0");
  event.mutable_rank()->mutable_state()->mutable_process()->set_pid(99);
  for (const auto state : {v1::RankState::SEEN, v1::RankState::ARMED, v1::RankState::CAPTURING}) {
    event.mutable_rank()->mutable_state()->set_state(state);
    aggregator_.events.push_back(event);
  }
  event.mutable_rank()->mutable_state()->set_state(v1::RankState::DONE);
  event.mutable_rank()->mutable_state()->set_records(12);
  event.mutable_rank()->set_lost(3);
  aggregator_.events.push_back(event);
  event.mutable_rank()->mutable_state()->set_state(v1::RankState::FAILED);
  event.mutable_rank()->mutable_state()->set_text("CUPTI is held by another tool");
  aggregator_.events.push_back(event);
  event.mutable_rank()->set_rank(1);
  event.mutable_rank()->mutable_state()->set_state(v1::RankState::SEEN);
  event.mutable_rank()->mutable_state()->set_went_over(true);
  aggregator_.events.push_back(event);
  aggregator_.events.push_back(Finished(v1::TraceFinished::COMPLETE));
  Run();
  EXPECT_THAT(
      stderr_,
      HasSubstr("rank 1 (n0, pid 99): captured by PyTorch's profiler: CUPTI is held by another tool"));
  for (const char* line :
       {"rank 0 (n0, pid 99): seen", "rank 0 (n0, pid 99): armed", "rank 0 (n0, pid 99): capturing",
        "rank 0 (n0, pid 99): done, 12 records, lost 3", "rank 0 (n0, pid 99): failed: CUPTI is held"}) {
    EXPECT_THAT(stderr_, HasSubstr(line));
  }
}

TEST_F(TraceSessionTest, ATerminalShowsOneLineAndRanksWithProblems) {
  v1::TraceEvent event;
  event.mutable_progress()->set_phase("arming");
  aggregator_.events.push_back(event);
  for (const auto state : {v1::RankState::ARMED, v1::RankState::DONE}) {
    for (int rank = 0; rank < 3; ++rank) {
      event.mutable_rank()->set_rank(rank);
      event.mutable_rank()->set_host_name("n0");
      event.mutable_rank()->mutable_state()->mutable_process()->set_pid(90 + rank);
      event.mutable_rank()->mutable_state()->set_state(state);
      event.mutable_rank()->set_lost(state == v1::RankState::DONE && rank == 2 ? 7 : 0);
      aggregator_.events.push_back(event);
    }
  }
  aggregator_.events.push_back(Finished(v1::TraceFinished::COMPLETE));
  RunOnTerminal();
  EXPECT_THAT(stderr_, HasSubstr("\rarming; ranks: 3 armed\x1b[K"));
  EXPECT_THAT(stderr_, HasSubstr("\rarming; ranks: 1 armed, 2 done\x1b[K"));
  EXPECT_THAT(stderr_, HasSubstr("lockstep: rank 2 (n0, pid 92): done, 0 records, lost 7"));
  EXPECT_THAT(stderr_, ::testing::Not(HasSubstr("lockstep: rank 0")));
}

TEST_F(TraceSessionTest, FollowsItsCaptureAfterTheAggregatorWasAway) {
  v1::TraceEvent armed;
  armed.mutable_rank()->set_host_name("n0");
  armed.mutable_rank()->mutable_state()->set_state(v1::RankState::ARMED);
  aggregator_.events.push_back(armed);
  aggregator_.end = absl::UnavailableError("socket closed");
  aggregator_.follow_errors = {absl::DeadlineExceededError("not there yet"),
                               absl::UnavailableError("lost again")};
  aggregator_.follow_events = aggregator_.events;
  aggregator_.follow_events.push_back(Finished(v1::TraceFinished::COMPLETE));
  EXPECT_EQ(Run(), ExitCode::kDone) << stderr_;
  EXPECT_THAT(aggregator_.followed, ::testing::ElementsAre("c1", "c1", "c1"));
  EXPECT_THAT(stderr_, HasSubstr("the connection to the aggregator was lost; waiting up to 45 s for it"));
  EXPECT_EQ(stderr_.find("armed"), stderr_.rfind("armed")) << "printed once";
  EXPECT_TRUE(fs::exists(folder_ + "/capture/report.json"));
}

TEST_F(TraceSessionTest, FetchesAgainAfterTheAggregatorWasAway) {
  aggregator_.events.push_back(Finished(v1::TraceFinished::COMPLETE));
  aggregator_.fetch_errors = 2;
  EXPECT_EQ(Run(), ExitCode::kDone) << stderr_;
  EXPECT_THAT(stderr_, HasSubstr("waiting up to 45 s"));
  EXPECT_TRUE(fs::exists(folder_ + "/capture/report.json"));
}

TEST_F(TraceSessionTest, GivesUpIfTheAggregatorStaysAway) {
  aggregator_.end = absl::UnavailableError("socket closed");
  output_.patience = Nanos::Millis(300);
  aggregator_.follow_errors.assign(100, absl::DeadlineExceededError("not there"));
  EXPECT_EQ(Run(), ExitCode::kFailed);
  EXPECT_THAT(stderr_,
              HasSubstr("the aggregator disconnected (socket closed): its records are in its state"));
}

TEST_F(TraceSessionTest, WritesNothingWithoutRanks) {
  aggregator_.events = {Finished(v1::TraceFinished::NO_SUCH_JOB, "no job is named x; there is 4711", 0)};
  EXPECT_EQ(Run(), ExitCode::kNotFound);
  EXPECT_THAT(stderr_, HasSubstr("no job is named x"));
  EXPECT_FALSE(fs::exists(folder_ + "/capture"));
  aggregator_.events = {Finished(v1::TraceFinished::TIMED_OUT, "nobody armed", 0)};
  EXPECT_EQ(Run(), ExitCode::kTimedOut);
  aggregator_.events = {Finished(v1::TraceFinished::DENIED, "not yours", 0)};
  EXPECT_EQ(Run(), ExitCode::kDenied);
}

// The records can show more than the aggregator that ran the capture.
TEST_F(TraceSessionTest, ACaptureThatIsNotWholeExitsWith7) {
  MakeRecords("gone");
  output_.exit_code = true;
  aggregator_.events.push_back(Finished(v1::TraceFinished::COMPLETE));
  EXPECT_EQ(Run(), ExitCode::kPartial) << stderr_;
  EXPECT_THAT(stdout_, ::testing::StartsWith("PARTIAL "));
  EXPECT_THAT(Read(folder_ + "/capture/report.json"), HasSubstr("\"partial\": true"));
}

// "capture.partial" is a name that a user may choose, too.
TEST_F(TraceSessionTest, OtherFoldersStayWhateverTheirNames) {
  fs::create_directories(folder_ + "/capture.partial/records");
  std::ofstream(folder_ + "/capture.partial/thesis.tex") << "years of work";
  aggregator_.events.push_back(Finished(v1::TraceFinished::COMPLETE));
  EXPECT_EQ(Run(), ExitCode::kDone) << stderr_;
  EXPECT_EQ(Read(folder_ + "/capture.partial/thesis.tex"), "years of work");
}

TEST_F(TraceSessionTest, AFolderThatExistsStopsTheCaptureAtOnce) {
  ASSERT_TRUE(MoveOwnFolder(*MakeFolderBeside(folder_ + "/capture", OwnFolder::kCapture),
                            folder_ + "/capture", OwnFolder::kCapture)
                  .ok());
  aggregator_.events.push_back(Finished(v1::TraceFinished::COMPLETE));
  EXPECT_EQ(Run(), ExitCode::kUsage);
  EXPECT_TRUE(aggregator_.WasCancelled());
  EXPECT_THAT(stderr_, HasSubstr("--force"));
}

TEST_F(TraceSessionTest, ForceReplacesTheWholeOldCapture) {
  ASSERT_TRUE(MoveOwnFolder(*MakeFolderBeside(folder_ + "/capture", OwnFolder::kCapture),
                            folder_ + "/capture", OwnFolder::kCapture)
                  .ok());
  std::ofstream(folder_ + "/capture/old") << "old";
  output_.overwrite = Overwrite::kForce;
  aggregator_.events.push_back(Finished(v1::TraceFinished::COMPLETE));
  EXPECT_EQ(Run(), ExitCode::kDone) << stderr_;
  EXPECT_FALSE(fs::exists(folder_ + "/capture/old"));
  EXPECT_TRUE(fs::exists(folder_ + "/capture/report.json"));
}

TEST_F(TraceSessionTest, ReplacesTokensInTheName) {
  output_.pattern = folder_ + "/%j-%r";
  aggregator_.events.push_back(Finished(v1::TraceFinished::COMPLETE));
  EXPECT_EQ(Run(), ExitCode::kDone) << stderr_;
  EXPECT_TRUE(fs::exists(folder_ + "/4711-0/report.json"));
}

TEST_F(TraceSessionTest, AnInterruptStopsTheCaptureAndKeepsIt) {
  aggregator_.wait_for_stop = true;
  aggregator_.last = Finished(v1::TraceFinished::COMPLETE);
  TraceSession session(aggregator_, output_);
  ::testing::internal::CaptureStdout();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    session.Interrupt();
  });
  EXPECT_EQ(session.Run({}), ExitCode::kDone);
  other.join();
  ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(aggregator_.StoppedCapture(), "c1");
  EXPECT_TRUE(fs::exists(folder_ + "/capture/report.json"));
}

TEST_F(TraceSessionTest, RefusesAPathFromTheAggregator) {
  aggregator_.files[0].first = "../../escape";
  aggregator_.events.push_back(Finished(v1::TraceFinished::COMPLETE));
  EXPECT_EQ(Run(), ExitCode::kFailed);
  EXPECT_FALSE(fs::exists(folder_ + "/escape"));
  EXPECT_THAT(stderr_, HasSubstr("does not belong to a capture"));
}

TEST_F(TraceSessionTest, ReportsALostAggregatorInOneSentence) {
  output_.patience = Nanos::Millis(300);
  aggregator_.end = absl::UnavailableError("socket closed");
  EXPECT_EQ(Run(), ExitCode::kFailed);
  EXPECT_THAT(stderr_, HasSubstr("the aggregator disconnected"));
}

TEST_F(TraceSessionTest, WritesOnlyTheRequestedFormats) {
  output_.formats = *ParseFormats("perfetto");
  aggregator_.events.push_back(Finished(v1::TraceFinished::COMPLETE));
  EXPECT_EQ(Run(), ExitCode::kDone) << stderr_;
  EXPECT_FALSE(fs::exists(folder_ + "/capture/traces"));
  EXPECT_TRUE(fs::exists(folder_ + "/capture/merged.pftrace"));
  EXPECT_FALSE(ParseFormats("kineto,otf").ok());
}

}  // namespace
}  // namespace lockstep::cli
