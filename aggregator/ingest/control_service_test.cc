// Tests over real gRPC which callers may see, capture, stop and fetch, if credentials identify them.
#include "aggregator/ingest/control_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "aggregator/ingest/ingest_fixture.h"
#include "base/read_clock.h"
#include "base/rpc/job_token.h"

namespace lockstep::aggregator {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";
constexpr uid_t kAlice = 1000;  // the user of FakeDaemon's ranks

class Names final : public rpc::CallerCredentials {
 public:
  absl::StatusOr<std::string> Make() const override { return absl::UnavailableError("the test makes them"); }
  absl::StatusOr<uid_t> Read(const std::string& credential) const override {
    if (credential == "alice") return kAlice;
    if (credential == "bob") return kAlice + 1;
    if (credential == "carol") return kAlice + 2;
    if (credential == "root") return 0;
    if (credential == "slow") {
      ++checking_;
      answer_.WaitForNotification();
    }
    return absl::UnauthenticatedError("forged");
  }
  int checking() const { return checking_; }
  // Ends the checks of "slow".
  void Answer() { answer_.Notify(); }

 private:
  mutable std::atomic<int> checking_ = 0;
  mutable absl::Notification answer_;
};

class ControlServiceTest : public IngestTest {
 protected:
  const std::shared_ptr<Names> names_ = std::make_shared<Names>();

  void SetUp() override {
    IngestTest::SetUp();
    Serve(Quick(), kToken, names_);
    FakeDaemon& daemon = Daemon("n0", 1);
    ASSERT_EQ(daemon.Connect(kToken).refused(), "");
    daemon.SendRanks(0, 1, 1);
    for (int i = 0; i < 200 && SeenRanks() < 1; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  static std::unique_ptr<grpc::ClientContext> As(const std::string& name) {
    auto context = std::make_unique<grpc::ClientContext>();
    if (name == "token") context->AddMetadata(rpc::kTokenMetadata, kToken);
    if (name != "token" && !name.empty()) context->AddMetadata(rpc::kMungeMetadata, name);
    return context;
  }
  grpc::StatusCode StatusCodeOf(const std::string& name) {
    v1::StatusReply reply;
    return stub_->Status(As(name).get(), {}, &reply).error_code();
  }
  // Returns the number of visible ranks, or -1 if the call is refused.
  int Shown(const std::string& name) {
    v1::StatusReply reply;
    if (!stub_->Status(As(name).get(), {}, &reply).ok()) return -1;
    return reply.daemons_size() == 1 ? reply.daemons(0).ranks_size() : -2;
  }
  TraceRun TraceAs(const std::string& name, const std::string& job) {
    v1::TraceRequest request;
    request.set_job(job);
    request.set_duration_ns(Nanos::Millis(50).ns());
    request.set_activities(0xFF);
    TraceRun run;
    const auto context = As(name);
    auto reader = stub_->Trace(context.get(), request);
    v1::TraceEvent event;
    while (reader->Read(&event)) {
      if (event.has_finished()) run.finished = event.finished();
    }
    run.status = reader->Finish();
    return run;
  }
  grpc::StatusCode FetchAs(const std::string& name, const std::string& capture) {
    v1::FetchRequest request;
    request.set_capture(capture);
    const auto context = As(name);
    auto reader = stub_->Fetch(context.get(), request);
    v1::FetchChunk chunk;
    while (reader->Read(&chunk)) {
    }
    return reader->Finish().error_code();
  }
  grpc::StatusCode StopAs(const std::string& name, const std::string& capture) {
    v1::StopRequest request;
    request.set_capture(capture);
    v1::StopReply reply;
    return stub_->Stop(As(name).get(), request, &reply).error_code();
  }
  std::string JobOfTheRank() {
    const v1::StatusReply status = hub_->Status("", Caller::All());
    return status.daemons(0).ranks(0).job();
  }
};

TEST_F(ControlServiceTest, RefusesAStrangerBeforeItReadsTheRequest) {
  // Our own channels do not send a message of this size.
  const auto stub = v1::Control::NewStub(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  v1::StatusRequest request;
  request.set_job(std::string(static_cast<size_t>(rpc::kMaxMessageBytes) + 1, 'x'));
  v1::StatusReply reply;
  EXPECT_EQ(stub->Status(As("").get(), request, &reply).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_FALSE(stub->Status(As("token").get(), request, &reply).ok()) << "too large for anybody";
}

TEST_F(ControlServiceTest, LimitsTheCredentialsThatItChecksAtOnce) {
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back([this] { StatusCodeOf("slow"); });
  for (int i = 0; i < 2000 && names_->checking() < 4; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(names_->checking(), 4);
  EXPECT_EQ(StatusCodeOf("slow"), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(StatusCodeOf("token"), grpc::StatusCode::OK);
  names_->Answer();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(StatusCodeOf("alice"), grpc::StatusCode::OK);
}

TEST(CallSlotsTest, EachUserHasTheirOwn) {
  CallSlots slots(2);
  const auto first = slots.Take(Caller::User(1000, {.capture_own = true}));
  auto second = slots.Take(Caller::User(1000, {.capture_own = true}));
  ASSERT_TRUE(first.ok() && second.ok());
  const absl::Status third = slots.Take(Caller::User(1000, {.capture_own = true})).status();
  EXPECT_EQ(third.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(third.message()), HasSubstr("user 1000 has 2 calls"));
  EXPECT_TRUE(slots.Take(Caller::User(1001, {.capture_own = true})).ok());
  EXPECT_TRUE(slots.Take(Caller::All()).ok());
  second->reset();
  EXPECT_TRUE(slots.Take(Caller::User(1000, {.capture_own = true})).ok());
}

TEST_F(ControlServiceTest, AWatcherGetsWhatIsNoticedOfTheJobBeforeEachSampleAndPause) {
  // Two users have jobs of that name.
  noticed_ = [](const Caller& caller, const std::string& job, v1::StatusReply& reply) {
    EXPECT_EQ(job, "train");
    EXPECT_FALSE(caller.may_use_all());
    for (const uint32_t uid : {kAlice + 1, kAlice}) {
      v1::JobSteps& steps = *reply.add_jobs();
      steps.set_job("train");
      steps.set_uid(uid);
      steps.set_step_time_ns(uid);
      v1::JobHang& hang = *reply.add_hangs();
      hang.set_job("train");
      hang.set_uid(uid);
      hang.set_cause("stopped");
      v1::JobHang& ended = *reply.add_hangs();
      ended = hang;
      ended.set_ended_unix_ns(1);
    }
  };
  v1::WatchEvent pace, sample, pause, ended;
  pace.mutable_pace()->set_job(absl::StrCat(kAlice, ":train"));
  pace.mutable_pace()->set_job_name("train");
  sample.mutable_sample();
  pause.mutable_pause();
  ended.mutable_ended();
  samples_.events = {pace, sample, pause, ended};
  const auto context = As("alice");
  auto reader = stub_->Watch(context.get(), {});
  v1::WatchEvent event;
  std::vector<v1::WatchEvent::EventCase> kinds;
  while (reader->Read(&event)) {
    kinds.push_back(event.event_case());
    if (!event.has_notice()) continue;
    EXPECT_EQ(event.notice().steps().step_time_ns(), kAlice);
    ASSERT_EQ(event.notice().hangs_size(), 1);
    EXPECT_EQ(event.notice().hangs(0).uid(), kAlice);
    EXPECT_EQ(event.notice().hangs(0).ended_unix_ns(), 0);
  }
  EXPECT_TRUE(reader->Finish().ok());
  using Event = v1::WatchEvent;
  EXPECT_THAT(kinds, ElementsAre(Event::kPace, Event::kNotice, Event::kSample, Event::kNotice, Event::kPause,
                                 Event::kEnded));
}

TEST_F(ControlServiceTest, EachUserSeesTheirOwnJobs) {
  EXPECT_EQ(Shown("alice"), 1);
  EXPECT_EQ(Shown("bob"), 0);
  EXPECT_EQ(Shown("root"), 1);
  EXPECT_EQ(Shown("token"), 1);
  EXPECT_EQ(Shown(""), -1);
  EXPECT_EQ(Shown("mallory"), -1);
}

TEST_F(ControlServiceTest, AValidCredentialDoesNotReplaceAWrongToken) {
  auto context = As("alice");
  context->AddMetadata(rpc::kTokenMetadata, "wrong-token-wrong-token");
  v1::StatusReply reply;
  EXPECT_EQ(stub_->Status(context.get(), {}, &reply).error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(ControlServiceTest, OnlyItsOwnerMayUseACapture) {
  const std::string job = JobOfTheRank();
  const TraceRun denied = TraceAs("bob", job);
  EXPECT_EQ(denied.finished.outcome(), v1::TraceFinished::DENIED);
  EXPECT_THAT(denied.finished.text(), HasSubstr("is user 1000's, and you are user 1001"));
  EXPECT_EQ(TraceAs("mallory", job).status.error_code(), grpc::StatusCode::UNAUTHENTICATED);

  auto running = std::async(std::launch::async, [&] { return TraceAs("alice", job); });
  FakeDaemon& daemon = *daemons_[0];
  const std::string id = ArmAll(daemon);
  EXPECT_EQ(StopAs("bob", id), grpc::StatusCode::PERMISSION_DENIED);
  WaitForStart(daemon);
  daemon.SendEnd(1, id, 0);
  EXPECT_EQ(running.get().finished.outcome(), v1::TraceFinished::COMPLETE);

  EXPECT_EQ(FetchAs("bob", id), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(FetchAs("", id), grpc::StatusCode::UNAUTHENTICATED);
  for (const char* name : {"alice", "root", "token"})
    EXPECT_EQ(FetchAs(name, id), grpc::StatusCode::OK) << name;
  v1::StatusReply reply;
  ASSERT_TRUE(stub_->Status(As("bob").get(), {}, &reply).ok());
  EXPECT_EQ(reply.captures_size(), 0);

  std::filesystem::remove(folder_ + "/captures/" + id + "/records/manifest.json");
  EXPECT_EQ(FetchAs("alice", id), grpc::StatusCode::PERMISSION_DENIED) << "whose it is unknown";
  EXPECT_EQ(FetchAs("token", id), grpc::StatusCode::OK);
}

// Alice may only look, bob sees everything and captures his own jobs, and 1002 may do everything.
class ControlServiceRolesTest : public ControlServiceTest {
 protected:
  void SetUp() override {
    role_settings_ = {.viewers = {"1001"}, .operators = {"1001"}, .admins = {"1002"}};
    ControlServiceTest::SetUp();
  }
  // Returns the id of a finished capture of the rank.
  std::string Captured(const std::string& name) {
    auto running = std::async(std::launch::async, [&] { return TraceAs(name, JobOfTheRank()); });
    FakeDaemon& daemon = *daemons_[0];
    std::string id = ArmAll(daemon);
    WaitForStart(daemon);
    daemon.SendEnd(1, id, 0);
    EXPECT_EQ(running.get().finished.outcome(), v1::TraceFinished::COMPLETE);
    return id;
  }
};

TEST_F(ControlServiceRolesTest, AViewerSeesWhatOthersOwn) {
  EXPECT_EQ(Shown("bob"), 1);
  EXPECT_EQ(Shown("alice"), 1);
  EXPECT_EQ(Shown("carol"), 1);
  const std::string id = Captured("carol");
  for (const char* name : {"alice", "bob", "carol", "root"})
    EXPECT_EQ(FetchAs(name, id), grpc::StatusCode::OK) << name;
}

TEST_F(ControlServiceRolesTest, OnlyAnOperatorOrAdminTriggersAndStops) {
  const TraceRun own = TraceAs("alice", JobOfTheRank());
  EXPECT_EQ(own.finished.outcome(), v1::TraceFinished::DENIED);
  EXPECT_THAT(own.finished.text(), HasSubstr("the aggregator's --operators do not include you"));
  const TraceRun others = TraceAs("bob", JobOfTheRank());
  EXPECT_EQ(others.finished.outcome(), v1::TraceFinished::DENIED);
  EXPECT_THAT(others.finished.text(), HasSubstr("is user 1000's, and you are user 1001"));
  auto running = std::async(std::launch::async, [&] { return TraceAs("carol", JobOfTheRank()); });
  FakeDaemon& daemon = *daemons_[0];
  const std::string id = ArmAll(daemon);
  EXPECT_EQ(StopAs("alice", id), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(StopAs("bob", id), grpc::StatusCode::PERMISSION_DENIED);
  WaitForStart(daemon);
  EXPECT_EQ(StopAs("carol", id), grpc::StatusCode::OK);
  daemon.SendEnd(1, id, 0);
  EXPECT_EQ(running.get().status.error_code(), grpc::StatusCode::OK);
}

// The context's "token" for one job. The rank's job belongs to Alice.
class ControlServiceJobTokenTest : public ControlServiceTest {
 protected:
  static std::string TokenFor(const std::string& job, uid_t owner, rpc::JobClaims::Role role,
                              const char* secret = kToken) {
    return *rpc::MakeJobToken(secret, {.job = job,
                                       .owner = owner,
                                       .role = role,
                                       .until = ReadRealtime() + Nanos::Seconds(60),
                                       .authority = ""});
  }
  std::unique_ptr<grpc::ClientContext> With(const std::string& token) {
    auto context = std::make_unique<grpc::ClientContext>();
    context->AddMetadata(rpc::kTokenMetadata, token);
    return context;
  }
  int ShownWith(const std::string& token) {
    v1::StatusReply reply;
    if (!stub_->Status(With(token).get(), {}, &reply).ok()) return -1;
    return reply.daemons_size() == 1 ? reply.daemons(0).ranks_size() : 0;
  }
  v1::TraceFinished TraceWith(const std::string& token, const std::string& job) {
    v1::TraceRequest request;
    request.set_job(job);
    request.set_duration_ns(Nanos::Millis(50).ns());
    const auto context = With(token);
    auto reader = stub_->Trace(context.get(), request);
    v1::TraceEvent event;
    v1::TraceFinished finished;
    while (reader->Read(&event)) {
      if (event.has_finished()) finished = event.finished();
    }
    return finished;
  }
};

TEST_F(ControlServiceJobTokenTest, ShowsOneJobOfOneUser) {
  using Role = rpc::JobClaims::Role;
  const std::string job = JobOfTheRank();
  EXPECT_EQ(ShownWith(TokenFor(job, kAlice, Role::kViewer)), 1);
  EXPECT_EQ(ShownWith(TokenFor(job, kAlice, Role::kOperator)), 1);
  EXPECT_EQ(ShownWith(TokenFor("other", kAlice, Role::kOperator)), 0);
  EXPECT_EQ(ShownWith(TokenFor(job, kAlice + 1, Role::kOperator)), 0) << "another user's job of that name";
  EXPECT_EQ(ShownWith(TokenFor(job, kAlice, Role::kViewer, "another-secret-another-secret")), -1);
}

TEST_F(ControlServiceJobTokenTest, OnlyAnOperatorsTokenCaptures) {
  using Role = rpc::JobClaims::Role;
  const std::string job = JobOfTheRank();
  const v1::TraceFinished looked = TraceWith(TokenFor(job, kAlice, Role::kViewer), job);
  EXPECT_EQ(looked.outcome(), v1::TraceFinished::DENIED);
  EXPECT_THAT(looked.text(), HasSubstr("your token does not let you capture it"));
  const v1::TraceFinished other = TraceWith(TokenFor("other", kAlice, Role::kOperator), job);
  EXPECT_EQ(other.outcome(), v1::TraceFinished::DENIED);
  EXPECT_THAT(other.text(), HasSubstr("your token is for job other, to which"));

  auto running =
      std::async(std::launch::async, [&] { return TraceWith(TokenFor(job, kAlice, Role::kOperator), job); });
  FakeDaemon& daemon = *daemons_[0];
  const std::string id = ArmAll(daemon);
  v1::StopRequest stop;
  stop.set_capture(id);
  v1::StopReply reply;
  EXPECT_EQ(stub_->Stop(With(TokenFor(job, kAlice, Role::kViewer)).get(), stop, &reply).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  WaitForStart(daemon);
  daemon.SendEnd(1, id, 0);
  EXPECT_EQ(running.get().outcome(), v1::TraceFinished::COMPLETE);
}

TEST_F(ControlServiceTest, AuditsCallsWithoutSecrets) {
  const std::string job = JobOfTheRank();
  TraceAs("bob", job);
  TraceAs("mallory", job);
  auto running = std::async(std::launch::async, [&] { return TraceAs("alice", job); });
  FakeDaemon& daemon = *daemons_[0];
  const std::string id = ArmAll(daemon);
  EXPECT_THAT(audited_.lines().back(),
              AllOf(HasSubstr("\"by\":\"munge\",\"uid\":1000,"), HasSubstr("\"stage\":\"begin\"")))
      << "before the capture has ended";
  WaitForStart(daemon);
  daemon.SendEnd(1, id, 0);
  running.get();
  StopAs("token", id);
  FetchAs("bob", id);
  FetchAs("token", id);
  v1::StatusReply reply;
  auto context = std::make_unique<grpc::ClientContext>();
  context->AddMetadata(rpc::kTokenMetadata, "wrong-token-wrong-token");
  EXPECT_FALSE(stub_->Status(context.get(), {}, &reply).ok());
  EXPECT_NE(Daemon("n1", 2).Connect("wrong-token-wrong-token").credits(), 16u);

  const std::string capture = "\"capture\":\"" + id + "\"";
  EXPECT_THAT(
      audited_.lines(),
      ElementsAre(
          AllOf(HasSubstr("\"what\":\"trace\""), HasSubstr("\"uid\":1001,"),
                HasSubstr("\"stage\":\"begin\",\"job\":\"" + job + "\",\"ranks\":\"all\"")),
          AllOf(HasSubstr("\"result\":\"denied\""), HasSubstr("is user 1000's, and you are user 1001")),
          AllOf(HasSubstr("\"what\":\"trace\""), HasSubstr("\"result\":\"refused\",\"text\":\"forged\"")),
          HasSubstr("\"duration_ns\":50000000"),
          AllOf(HasSubstr("\"result\":\"complete\""), HasSubstr(capture), HasSubstr("\"captured_ranks\":1")),
          AllOf(HasSubstr("\"what\":\"stop\",\"by\":\"token\""), HasSubstr(capture)),
          HasSubstr("\"result\":\"not_found\""), HasSubstr("\"what\":\"fetch\""),
          AllOf(HasSubstr("\"result\":\"denied\""), HasSubstr("\"files\":0,\"bytes\":0")),
          AllOf(HasSubstr("\"what\":\"fetch\",\"by\":\"token\""), HasSubstr("\"stage\":\"begin\"")),
          AllOf(HasSubstr("\"stage\":\"end\",\"result\":\"ok\""),
                ContainsRegex("\"files\":[1-9][0-9]*,\"bytes\":[1-9]")),
          AllOf(HasSubstr("\"what\":\"status\""), HasSubstr("\"result\":\"refused\"")),
          HasSubstr("\"what\":\"connect\"")));
  for (const std::string& line : audited_.lines()) {
    for (const char* secret : {kToken, "wrong-token", "alice"})
      EXPECT_EQ(line.find(secret), std::string::npos) << line;
  }
}

TEST_F(ControlServiceTest, DoesNotRemoveACaptureDuringAFetch) {
  const std::string id = "20260101-000000-00000a", folder = folder_ + "/captures/" + id + "/records";
  std::filesystem::create_directories(folder);
  // More bytes than the stream can buffer.
  constexpr size_t kBytes = 32u << 20;
  for (const char* name : {"r0.p00000.0.lsr", "r0.p00000.1.lsr"})
    std::ofstream(folder + "/" + name) << std::string(kBytes, 'x');
  v1::FetchRequest request;
  request.set_capture(id);
  const auto context = As("token");
  auto reader = stub_->Fetch(context.get(), request);
  v1::FetchChunk chunk;
  ASSERT_TRUE(reader->Read(&chunk));
  size_t bytes = chunk.data().size();
  EXPECT_FALSE(use_.BeginRemoval(id)) << "what retention asks before it removes";
  while (reader->Read(&chunk)) bytes += chunk.data().size();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(bytes, 2 * kBytes);
  for (int i = 0; i < 200 && !use_.BeginRemoval(id); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(FetchAs("token", id), grpc::StatusCode::NOT_FOUND) << "it is being removed";
}

}  // namespace
}  // namespace lockstep::aggregator
