// Tests the daemon's metrics port with real sockets and clients.
#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "base/fd.h"
#include "base/http/http_client_fake.h"
#include "base/rpc/token.h"
#include "daemon/daemon_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class DaemonMetricsTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    options_.metrics = "127.0.0.1:0";
    options_.token_file = folder_.path() + "/token";
    const auto token = rpc::Token::LoadOrCreate(options_.token_file);
    ASSERT_TRUE(token.ok()) << token.status();
    bearer_ = "Authorization: Bearer " + token->text() + "\r\n";
  }
  std::string Fetch(const std::string& path) { return Get(daemon_->metrics_address(), path, bearer_); }
  std::string Page() { return BodyOf(Fetch("/metrics")); }
  std::string Health() { return BodyOf(Fetch("/healthz")); }
  // Returns the value of the sample `name`, or -1 if there is none.
  double Value(const std::string& page, const std::string& name) {
    const size_t at = page.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(page.substr(at + name.size() + 2));
  }

  std::string bearer_;
};

TEST_F(DaemonMetricsTest, CountsACaptureFromRingToAcknowledgement) {
  StartDaemon();
  StartClient(0, 1000);
  StartClient(1, 500);
  ASSERT_TRUE(WaitForRanks(2));
  Capture("c");
  ASSERT_TRUE(WaitForEnds(2));
  const std::string page = Page();
  const std::string aggregator = "{aggregator=\"" + aggregator_->address() + "\"}";
  EXPECT_EQ(Value(page, "lockstep_daemon_ranks"), 2);
  EXPECT_EQ(Value(page, "lockstep_daemon_drained_records_total"), 1502) << "and a string each";
  EXPECT_GE(Value(page, "lockstep_daemon_drained_bytes_total"), 1502 * 24);
  EXPECT_EQ(Value(page, "lockstep_daemon_captures_total{outcome=\"complete\"}"), 1);
  EXPECT_EQ(Value(page, "lockstep_daemon_captured_processes_total{outcome=\"done\"}"), 2);
  EXPECT_EQ(Value(page, "lockstep_daemon_capture_duration_seconds_count"), 1);
  EXPECT_EQ(Value(page, "lockstep_daemon_uplink_connected" + aggregator), 1);
  EXPECT_EQ(Value(page, "lockstep_daemon_uplink_registrations_total" + aggregator), 1);
  EXPECT_GE(Value(page, "lockstep_daemon_batches_sent_total" + aggregator), 4) << "a batch and an end each";
  EXPECT_EQ(Value(page, "lockstep_daemon_spool_limit_bytes"), 64 << 20);
  EXPECT_EQ(Value(page, "lockstep_daemon_lost_records_total{stage=\"ring\",kind=\"kernel\"}"), 0);
  EXPECT_EQ(Health(), "ok uplink=up\n");
}

TEST_F(DaemonMetricsTest, HealthReportsTheUplink) {
  StartDaemon(With::kNothing);
  EXPECT_EQ(Health(), "ok uplink=none\n");
  StopDaemon();
  options_.aggregators = {"unix:" + folder_.path() + "/nobody.sock"};
  StartDaemon(With::kNothing);
  EXPECT_EQ(Health(), "ok uplink=down\n");
  EXPECT_EQ(Value(Page(), "lockstep_daemon_uplink_connected{aggregator=\"" + options_.aggregators[0] + "\"}"),
            0);
}

TEST_F(DaemonMetricsTest, HealthReportsAHungMainLoop) {
  auto daemon = CreateDaemon(options_, clock_, log_);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  daemon_ = *std::move(daemon);  // its loop is never run
  EXPECT_THAT(Fetch("/healthz"), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(Fetch("/metrics"), HasSubstr("the daemon's main loop has not answered for 1 s\n"));
  thread_ = std::thread([this] { daemon_->Run(); });
  EXPECT_EQ(Health(), "ok uplink=none\n") << "the late answers go nowhere";
}

TEST_F(DaemonMetricsTest, CountsRefusedClientsByReason) {
  StartDaemon(With::kNothing);
  const Fd client(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  options_.socket.copy(to.sun_path, sizeof(to.sun_path) - 1);
  ASSERT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  ASSERT_EQ(send(client.get(), "nonsense", 8, 0), 8);
  char refusal[4096];
  ASSERT_GT(recv(client.get(), refusal, sizeof(refusal), 0), 0);
  const std::string page = Page();
  EXPECT_EQ(Value(page, "lockstep_daemon_clients_refused_total{reason=\"protocol\"}"), 1);
  EXPECT_EQ(Value(page, "lockstep_daemon_clients_refused_total{reason=\"no_hello\"}"), 0);
}

TEST_F(DaemonMetricsTest, OpensNoPortWithoutAToken) {
  options_.token_file.clear();
  const auto daemon = CreateDaemon(options_, clock_, log_);
  ASSERT_FALSE(daemon.ok());
  EXPECT_THAT(std::string(daemon.status().message()), HasSubstr("--token-file"));
}

}  // namespace
}  // namespace lockstep::daemon
