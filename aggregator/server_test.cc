// Tests the server as programs start it, and the captures that it keeps.
#include "aggregator/server.h"

#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>

#include "aggregator/ingest/fake_daemon.h"
#include "aggregator/reports/local_analyst.h"
#include "base/files/own_folder.h"
#include "base/files/read_files.h"
#include "base/http/http_client_fake.h"
#include "base/mutex.h"
#include "base/rpc/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/v1/control.grpc.pb.h"
#include "wire/columns/columns.h"

namespace lockstep::aggregator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
namespace fs = std::filesystem;

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    char pattern[] = "/tmp/lockstep-server-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    options_.state_dir = folder_ + "/state";
    options_.listen = {"unix:" + folder_ + "/s"};
    options_.analyst = std::make_shared<LocalAnalyst>();
  }
  ~ServerTest() override { fs::remove_all(folder_); }

  // Records one rank's capture of a few kernels and returns its id.
  std::string CaptureOnce(Server& server, v1::TraceFinished* end = nullptr) {
    aggregator::FakeDaemon daemon(*rpc::Connect(server.addresses()[0]), "node", ++session_);
    daemon.Connect(options_.security.token.text());
    daemon.SendRanks(0, 1, 1);
    EXPECT_TRUE(server.WaitForDaemon(Nanos::Seconds(5)));
    auto traced = std::async(std::launch::async, [&] {
      auto stub = v1::Control::NewStub(*rpc::Connect(server.addresses()[0]));
      grpc::ClientContext context;
      if (!options_.security.token.empty())
        context.AddMetadata(rpc::kTokenMetadata, options_.security.token.text());
      v1::TraceRequest request;
      request.set_duration_ns(Nanos::Millis(20).ns());
      auto reader = stub->Trace(&context, request);
      v1::TraceEvent event;
      v1::TraceFinished finished;
      while (reader->Read(&event)) {
        if (event.has_finished()) finished = event.finished();
      }
      reader->Finish();
      return finished;
    });
    const auto arm = daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm(); }).arm();
    daemon.SendState(arm.capture(), 0, v1::RankState::ARMED);
    daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_start(); });
    columns::BlockBuilder builder(columns::Kind::kKernel);
    std::vector<uint64_t> row(columns::Schema(columns::Kind::kKernel).size(), 1);
    builder.Append(row);
    std::string blocks;
    builder.Encode(1, 0, blocks);
    daemon.SendBatch(1, arm.capture(), 0, blocks, 1);
    daemon.SendEnd(2, arm.capture(), 0);
    const v1::TraceFinished last = traced.get();
    EXPECT_EQ(last.outcome(), v1::TraceFinished::COMPLETE);
    if (end != nullptr) *end = last;
    return arm.capture();
  }

  std::string folder_;
  ServerOptions options_;
  uint64_t session_ = 0;
};

TEST_F(ServerTest, OpensNoTcpPortWithoutAToken) {
  options_.listen = {"127.0.0.1:0"};
  const auto server = Server::Start(options_);
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("--token-file"));
  options_.security.token = *rpc::Token::Random();
  const auto with_token = Server::Start(options_);
  ASSERT_TRUE(with_token.ok()) << with_token.status();
  EXPECT_THAT((*with_token)->addresses(), ElementsAre(MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]+")));
}

TEST_F(ServerTest, RefusesASocketInAFolderOpenToOthers) {
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  const auto server = Server::Start(options_);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("chmod 700"));
}

TEST_F(ServerTest, NamesAnAddressInUse) {
  options_.security.token = *rpc::Token::Random();
  options_.listen = {"127.0.0.1:0"};
  const auto first = Server::Start(options_);
  ASSERT_TRUE(first.ok());
  options_.listen = (*first)->addresses();
  const auto second = Server::Start(options_);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("cannot listen on " + options_.listen[0]));
}

TEST_F(ServerTest, TheStateFolderIsForItsUserOnly) {
  const auto server = Server::Start(options_);
  ASSERT_TRUE(server.ok()) << server.status();
  struct stat info = {};
  ASSERT_EQ(::stat(options_.state_dir.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(ServerTest, AnalysesAStoredCapture) {
  const auto server = Server::Start(options_);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string folder = CapturesFolder(options_.state_dir) + "/" + CaptureOnce(**server);
  for (const char* name : {"records/manifest.json", "report.json", "report.txt"})
    EXPECT_TRUE(fs::exists(folder + "/" + name)) << name;
}

// Refuses all captures.
class Unable final : public Analyst {
 public:
  absl::StatusOr<ReportFacts> Report(const StoredCapture& capture, WritesPage) override {
    owner_ = capture.owner;
    return absl::ResourceExhaustedError("the analysis needed more than 2 GiB of memory (--analysis-memory)");
  }
  absl::StatusOr<Summary> Sample(const StoredCapture&) override { return absl::InternalError("unused"); }
  void Shutdown() override { closed_ = true; }
  std::atomic<uid_t> owner_ = 0;
  std::atomic<bool> closed_ = false;
};

TEST_F(ServerTest, AFailedAnalysisIsNamedAndFailsNoCapture) {
  const auto unable = std::make_shared<Unable>();
  options_.analyst = unable;
  const auto server = Server::Start(options_);
  ASSERT_TRUE(server.ok()) << server.status();
  v1::TraceFinished finished;
  const std::string folder = CapturesFolder(options_.state_dir) + "/" + CaptureOnce(**server, &finished);
  EXPECT_EQ(
      finished.text(),
      "the aggregator made no report: the analysis needed more than 2 GiB of memory (--analysis-memory)");
  EXPECT_EQ(FileText(folder + "/no-report.txt"),
            "the analysis needed more than 2 GiB of memory (--analysis-memory)\n");
  EXPECT_EQ(unable->owner_, 1000u);
  EXPECT_FALSE(unable->closed_);
  (*server)->Shutdown();
  EXPECT_TRUE(unable->closed_);
}

TEST_F(ServerTest, LeavesTheAnalysisToTheCallerIfSet) {
  options_.analysis = ServerAnalysis::kByTheCaller;
  const auto server = Server::Start(options_);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string folder = CapturesFolder(options_.state_dir) + "/" + CaptureOnce(**server);
  EXPECT_TRUE(fs::exists(folder + "/records/manifest.json"));
  EXPECT_FALSE(fs::exists(folder + "/report.json"));
}

TEST_F(ServerTest, RetiresAndReportsOldCaptures) {
  Mutex mutex;
  std::vector<std::string> removed;
  options_.retention.captures = 2;
  options_.log = [&](LogLevel, const char* event, std::initializer_list<LogField> fields) {
    MutexLock lock(&mutex);
    if (std::string(event) == "capture_removed") removed.push_back(fields.begin()->value);
  };
  fs::create_directories(CapturesFolder(options_.state_dir));
  fs::create_directories(options_.state_dir + "/samples/mine");
  for (const char* name : {"/captures/20200101-000000-000000", "/captures/20200102-000000-000000",
                           "/samples/20200103-000000-000000"})
    ASSERT_TRUE(MakeOwnFolder(options_.state_dir + name, OwnFolder::kStoredCapture).ok());
  const auto server = Server::Start(options_);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string id = CaptureOnce(**server);
  EXPECT_FALSE(fs::exists(CapturesFolder(options_.state_dir) + "/20200101-000000-000000"));
  EXPECT_TRUE(fs::exists(CapturesFolder(options_.state_dir) + "/20200102-000000-000000"));
  EXPECT_TRUE(fs::exists(CapturesFolder(options_.state_dir) + "/" + id));
  EXPECT_FALSE(fs::exists(options_.state_dir + "/samples/20200103-000000-000000"));
  EXPECT_TRUE(fs::exists(options_.state_dir + "/samples/mine"));
  MutexLock lock(&mutex);
  EXPECT_THAT(removed, ElementsAre("20200101-000000-000000"));
}

TEST_F(ServerTest, MetricsCountCallsAndShowEachJobsLastReport) {
  options_.security.token = *rpc::Token::Random();
  options_.http = "127.0.0.1:0";
  const auto server = Server::Start(options_);
  ASSERT_TRUE(server.ok()) << server.status();
  CaptureOnce(**server);
  EXPECT_THAT(Get((*server)->http_address(), "/metrics"), HasSubstr("401 Unauthorized"));
  const std::string bearer = "Authorization: Bearer " + options_.security.token.text() + "\r\n";
  EXPECT_THAT(BodyOf(Get((*server)->http_address(), "/healthz", bearer)), MatchesRegex("ok daemons=[01]\n"));
  const std::string page = Get((*server)->http_address(), "/metrics", bearer);
  for (const char* line :
       {"captures_total{outcome=\"complete\"} 1", "ingested_records_total 1",
        "ingested_messages_total{kind=\"end\"} 1", "reports_total{outcome=\"written\"} 1", "store_captures 1",
        "rpc_requests_total{method=\"Control.Trace\",code=\"OK\"} 1", "http_requests_total{code=\"401\"} 1",
        "rpc_requests_total{method=\"Ingest.Stream\",code=\"UNAUTHENTICATED\"} 0", "job_stragglers{job="}) {
    EXPECT_THAT(page, HasSubstr(std::string("\nlockstep_aggregator_") + line));
  }
  // Starting on the same port again must fail, so that Prometheus never reads another server.
  options_.http = (*server)->http_address();
  options_.listen = {"unix:" + folder_ + "/s2"};
  const auto second = Server::Start(options_);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("give another --http"));
}

TEST_F(ServerTest, WritesAPageIfThePortIsOpen) {
  const auto without = Server::Start(options_);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_FALSE(
      fs::exists(CapturesFolder(options_.state_dir) + "/" + CaptureOnce(**without) + "/report.html"));
  (*without)->Shutdown();
  options_.security.token = *rpc::Token::Random();
  options_.http = "127.0.0.1:0";
  options_.listen = {"unix:" + folder_ + "/s2"};
  const auto server = Server::Start(options_);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string id = CaptureOnce(**server),
                    bearer = "Authorization: Bearer " + options_.security.token.text() + "\r\n";
  const std::string index = BodyOf(Get((*server)->http_address(), "/api/index.json", bearer));
  EXPECT_THAT(index, HasSubstr("\"id\": \"" + id + "\""));
  EXPECT_THAT(index, HasSubstr("\"report.html\""));
  const std::string page = Get((*server)->http_address(), "/captures/" + id + "/report.html", bearer);
  EXPECT_THAT(page.substr(0, 20), HasSubstr("200 OK"));
  EXPECT_NE(page.find("id=\"lockstep-data\""), std::string::npos);
  EXPECT_THAT(Get((*server)->http_address(), "/captures/" + id + "/report.html"),
              HasSubstr("401 Unauthorized"));
}

TEST_F(ServerTest, OpensNoHttpPortWithoutAToken) {
  options_.http = "127.0.0.1:0";
  const auto server = Server::Start(options_);
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("--token-file"));
}

}  // namespace
}  // namespace lockstep::aggregator
