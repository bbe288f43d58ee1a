// Tests the loop, the log, the options, the clock thread and the sockets.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <future>
#include <iterator>
#include <thread>

#include "base/log/log.h"
#include "base/service_manager.h"
#include "base/service_manager_fake.h"
#include "daemon/loop/deadline_timer.h"
#include "daemon/loop/event_loop.h"
#include "daemon/node/clock_fake.h"
#include "daemon/node/socket.h"
#include "daemon/node/temp_folder_fake.h"
#include "daemon/options.h"
#include "daemon/uplink/clock_sync.h"
#include "gtest/gtest.h"
#include "simdjson.h"

namespace lockstep::daemon {
namespace {

class LoopTest : public testing::Test {
 protected:
  SystemClock clock_;
  std::unique_ptr<EventLoop> loop_ = *EventLoop::Create(clock_);
};

TEST_F(LoopTest, RunsTimersInOrderExceptCancelledOnes) {
  std::string order;
  loop_->After(Nanos::Millis(20), [&] { order += 'b'; });
  loop_->After(Nanos::Millis(1), [&] { order += 'a'; });
  const auto cancelled = loop_->After(Nanos::Millis(10), [&] { order += 'x'; });
  loop_->After(Nanos::Millis(30), [&] { loop_->Stop(); });
  loop_->Cancel(cancelled);
  loop_->Run();
  EXPECT_EQ(order, "ab");
}

TEST_F(LoopTest, RunsCallbacksThatOtherThreadsPost) {
  int posted = 0;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) loop_->Post([&] { ++posted; });
    loop_->Post([&] { loop_->Stop(); });
  });
  loop_->Run();
  other.join();
  EXPECT_EQ(posted, 1000);
}

TEST_F(LoopTest, LetsACallbackUnwatchItselfAndOthers) {
  int pipes[2][2];
  EventLoop::WatchId watches[2] = {};
  int calls = 0;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(pipe2(pipes[i], O_CLOEXEC), 0);
    ASSERT_EQ(write(pipes[i][1], "x", 1), 1);
    watches[i] = *loop_->Watch(pipes[i][0], [&] {
      ++calls;
      for (EventLoop::WatchId id : watches) loop_->Unwatch(id);
      loop_->Stop();
    });
  }
  loop_->Run();
  EXPECT_EQ(calls, 1);
  for (auto& p : pipes) {
    close(p[0]);
    close(p[1]);
  }
}

TEST_F(LoopTest, ADeadlineTimerCallsOnceAtTheLastDeadline) {
  std::string order;
  DeadlineTimer timer(*loop_, clock_, [&] { order += 'd'; });
  timer.Set(clock_.Monotonic());
  timer.Set(clock_.Monotonic() + Nanos::Millis(10));
  DeadlineTimer cleared(*loop_, clock_, [&] { order += 'x'; });
  cleared.Set(clock_.Monotonic());
  cleared.Set(std::nullopt);
  loop_->After(Nanos::Millis(5), [&] { order += 'a'; });
  loop_->After(Nanos::Millis(20), [&] { loop_->Stop(); });
  loop_->Run();
  EXPECT_EQ(order, "ad");
}

TEST_F(LoopTest, ReportsToTheWatchdogExceptWhileItIsStuck) {
  TempFolder folder;
  FakeServiceManager manager(folder.path() + "/notify");
  loop_->Every(Nanos::Millis(1), [&] { NotifyServiceManager(manager.name(), kServiceAlive); });
  std::thread thread([&] { loop_->Run(); });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(manager.Next(), "WATCHDOG=1");
  std::promise<void> stuck, released;
  loop_->Post([&] {
    stuck.set_value();
    released.get_future().wait();
  });
  stuck.get_future().wait();
  manager.DropReceived();
  EXPECT_EQ(manager.Next(/*milliseconds=*/30), "nothing");
  released.set_value();
  EXPECT_EQ(manager.Next(), "WATCHDOG=1");
  loop_->Stop();
  thread.join();
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(LogLines, QuoteValuesAndContainNoControlCharacters) {
  TempFolder folder;
  const std::string path = folder.path() + "/log";
  Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  FakeClock clock;
  Log log(fd.get(), LogLevel::kInfo, clock);
  log.Debug("not_this");
  log.Warning("client", {{"pid", 12}, {"why", "a \"b\" c"}, {"bytes", "x\ny"}, {"empty", ""}});
  EXPECT_EQ(ReadAll(path).substr(24), " warning client pid=12 why=\"a \\\"b\\\" c\" bytes=x?y empty=\"\"\n");
}

TEST(LogLines, AreJsonObjectsOnRequest) {
  TempFolder folder;
  const std::string path = folder.path() + "/log";
  Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  FakeClock clock;
  Log log(fd.get(), LogLevel::kInfo, clock, LogFormat::kJson);
  log.Warning("client", {{"pid", 12}, {"why", "a \"b\" c\\"}, {"bytes", "x\ny"}, {"empty", ""}});
  for (int i = 0; i < Log::kLinesPerSecond; ++i) log.Info("again");
  clock.Advance(Nanos::Seconds(2));
  log.Info("later");
  const std::string text = ReadAll(path);
  simdjson::dom::parser parser;
  int objects = 0;
  for (const simdjson::dom::element line : parser.parse_many(text)) {
    ASSERT_EQ(std::string(line["time"].get_c_str()).size(), 24u);
    if (objects++ > 0) continue;
    EXPECT_EQ(std::string(line["level"].get_c_str()), "warning");
    EXPECT_EQ(std::string(line["event"].get_c_str()), "client");
    EXPECT_EQ(line["pid"].get_int64().value(), 12);
    EXPECT_EQ(std::string(line["why"].get_c_str()), "a \"b\" c\\");
    EXPECT_EQ(std::string(line["bytes"].get_c_str()), "x?y");
    EXPECT_EQ(std::string(line["empty"].get_c_str()), "");
  }
  EXPECT_EQ(objects, Log::kLinesPerSecond + 1);
  EXPECT_NE(text.find(",\"lines_suppressed_before\":1}\n"), std::string::npos);
}

TEST(LogLines, AreLimitedPerSecondAndCountTheDroppedOnes) {
  TempFolder folder;
  const std::string path = folder.path() + "/log";
  Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  FakeClock clock;
  Log log(fd.get(), LogLevel::kInfo, clock);
  for (int i = 0; i < 10'000; ++i) log.Info("again");
  std::string text = ReadAll(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), Log::kLinesPerSecond);
  clock.Advance(Nanos::Seconds(2));
  log.Info("later");
  EXPECT_NE(ReadAll(path).find("lines_suppressed_before=9800"), std::string::npos);
}

std::optional<Options> Parse(std::vector<const char*> argv, int* exit_code) {
  argv.insert(argv.begin(), "lockstepd");
  const char* environment[] = {nullptr};
  return ParseOptions(static_cast<int>(argv.size()), argv.data(), environment, exit_code);
}

TEST(OptionsTest, ReadSizesDurationsAndLists) {
  int code = 0;
  const auto options = Parse(
      {"--socket", "/x/client.sock", "--aggregator", "a:1", "--aggregator", "unix:/b", "--token-file", "/t",
       "--ring-bytes", "64KiB", "--spool-bytes", "1MiB", "--idle-exit", "10s", "--log-level", "debug"},
      &code);
  ASSERT_TRUE(options.has_value());
  EXPECT_EQ(options->socket, "/x/client.sock");
  EXPECT_EQ(options->aggregators, (std::vector<std::string>{"a:1", "unix:/b"}));
  EXPECT_EQ(options->ring_bytes, 64u << 10);
  EXPECT_EQ(options->spool_bytes, 1u << 20);
  EXPECT_EQ(options->idle_exit, Nanos::Seconds(10));
  EXPECT_EQ(options->log_level, LogLevel::kDebug);
  EXPECT_FALSE(Parse({}, &code)->idle_exit.has_value());
}

TEST(OptionsTest, WrongOptionsExitWith2AndHelpWith0) {
  int code = -1;
  for (const std::vector<const char*>& wrong : std::vector<std::vector<const char*>>{{"--nonsense"},
                                                                                     {"--ring-bytes", "1"},
                                                                                     {"--idle-exit", "soon"},
                                                                                     {"--log-level", "loud"},
                                                                                     {"stray"}}) {
    EXPECT_FALSE(Parse(wrong, &code).has_value());
    EXPECT_EQ(code, 2);
  }
  testing::internal::CaptureStdout();
  EXPECT_FALSE(Parse({"--help"}, &code).has_value());
  EXPECT_EQ(code, 0);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("--spool-bytes"), std::string::npos);
}

TEST(Sockets, AreRefusedInFoldersThatOthersCanWrite) {
  TempFolder folder;
  const mode_t before = umask(077);
  const std::string open_to_all = folder.path() + "/open";
  ASSERT_EQ(mkdir(open_to_all.c_str(), 0777), 0);
  ASSERT_EQ(chmod(open_to_all.c_str(), 0777), 0);
  EXPECT_EQ(PrepareSocketFolder(open_to_all).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(PrepareSocketFolder(folder.path() + "/new").ok());
  struct stat made {};
  ASSERT_EQ(stat((folder.path() + "/new").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, geteuid() == 0 ? 0755u : 0700u) << "whatever the umask";
  EXPECT_FALSE(PrepareSocketFolder(folder.path() + "/missing/deeper").ok());
  umask(before);
}

TEST(Sockets, ReplaceADeadSocketAndRemoveOnlyTheirOwn) {
  TempFolder folder;
  const std::string path = folder.path() + "/s";
  auto first = ListeningSocket::Open(path, SOCK_SEQPACKET, 0600);
  ASSERT_TRUE(first.ok()) << first.status();
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  {
    auto second = std::make_unique<ListeningSocket>(*ListeningSocket::Open(path, SOCK_SEQPACKET, 0600));
    { const ListeningSocket gone = *std::move(first); }
    EXPECT_EQ(access(path.c_str(), F_OK), 0);  // the second one's file
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  EXPECT_FALSE(ListeningSocket::Open("relative", SOCK_STREAM, 0600).ok());
  EXPECT_FALSE(ListeningSocket::Open("/" + std::string(200, 'x'), SOCK_STREAM, 0600).ok());
}

TEST(Sockets, ReportThePeer) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
  const auto peer = PeerOf(pair[0]);
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ(peer->uid, getuid());
  EXPECT_EQ(peer->pid, getpid());
  close(pair[0]);
  close(pair[1]);
  EXPECT_FALSE(PeerOf(-1).ok());
}

TEST(Locks, HaveOneHolder) {
  TempFolder folder;
  auto held = LockFile(folder.path() + "/lock");
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(LockFile(folder.path() + "/lock").status().code(), absl::StatusCode::kAlreadyExists);
  held->reset();
  EXPECT_TRUE(LockFile(folder.path() + "/lock").ok());
}

TEST(ClockSyncTest, BurstsAtTheStartAndThenUsesTheRateOfACapture) {
  SystemClock clock;
  std::atomic<int> queries = 0;
  std::atomic<int> ready = 0;
  ClockSync sync(clock, [&] { ++ready; });
  sync.Start([&](HostTime t1) -> std::optional<ClockSync::Answer> {
    ++queries;
    return ClockSync::Answer{JobTime(t1.ns() + 500), JobTime(t1.ns() + 500)};
  });
  while (ready == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(queries, 20);
  EXPECT_TRUE(sync.Estimate().known);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  EXPECT_EQ(queries, 20);  // when idle, one exchange every 10 s
  sync.SetRate(ClockSyncRate::kCapture);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  EXPECT_GT(queries, 42);
  EXPECT_LT(queries, 60);
  const int samples = static_cast<int>(sync.TakeSamples().size());
  EXPECT_GT(samples, 40);
  EXPECT_LE(samples, queries.load());
  sync.Stop();
  EXPECT_TRUE(sync.Estimate().known);
}

TEST(ClockSyncTest, SurvivesAnAggregatorThatDoesNotAnswer) {
  SystemClock clock;
  std::atomic<int> queries = 0;
  ClockSync sync(clock, [] {});
  sync.Start([&](HostTime) -> std::optional<ClockSync::Answer> {
    ++queries;
    return std::nullopt;
  });
  while (queries < 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  sync.Stop();
  EXPECT_FALSE(sync.Estimate().known);
  EXPECT_TRUE(sync.TakeSamples().empty());
}

}  // namespace
}  // namespace lockstep::daemon
