#include "daemon/ras/ras_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <string>

#include "base/clock.h"
#include "daemon/node/own_access.h"
#include "daemon/node/process.h"

namespace lockstep::daemon {
namespace {

// The environment of this process names no address, and an empty table has no listener on the default port.
class RasReaderTest : public testing::Test {
 protected:
  static v1::NodeProgress Node(int processes) {
    const ProcessId self = FindProcess(OwnAccess(), getpid())->id;
    v1::NodeProgress node;
    node.set_node_id("boot");
    for (int i = 0; i < processes; ++i)
      ToProto(self, node.add_processes()->mutable_rank()->mutable_process());
    return node;
  }
  static RasReader::Targets Targets(const std::string& node) {
    RasReader::Targets targets;
    v1::StackTarget& target = *targets.Add();
    target.set_node_id(node);
    *target.mutable_process() = Node(1).processes(0).rank().process();
    return targets;
  }
  v1::NodeProgress Read(v1::NodeProgress node, const RasReader::Targets& targets) {
    v1::NodeProgress answer;
    loop_->Post([&] {
      reader_->AddTo(std::move(node), targets, [&](v1::NodeProgress read) {
        answer = std::move(read);
        loop_->Stop();
      });
    });
    loop_->Run();
    return answer;
  }

  const OwnAccess access_;
  SystemClock clock_;
  std::unique_ptr<EventLoop> loop_ = *EventLoop::Create(clock_);
  std::unique_ptr<RasReader> reader_ = std::make_unique<RasReader>(
      access_, *loop_, RasLimits(), [](Loopback::Family) { return TcpTable::Parse(""); });
};

TEST_F(RasReaderTest, AsksOneLivingTarget) {
  v1::NodeProgress node = Node(3);
  node.mutable_processes(0)->set_gone_unix_ns(1);
  const v1::NodeProgress read = Read(node, Targets("boot"));
  ASSERT_EQ(read.processes_size(), 3);
  EXPECT_FALSE(read.processes(0).has_ras());
  EXPECT_THAT(read.processes(1).ras().problem(), testing::HasSubstr("no process listens there"));
  EXPECT_EQ(read.processes(1).ras().address(), "localhost:28028");
  EXPECT_GT(read.processes(1).ras().pid(), 0);
  EXPECT_FALSE(read.processes(2).has_ras());
}

TEST_F(RasReaderTest, AsksNothingWithoutATarget) {
  const v1::NodeProgress read = Read(Node(1), {});
  ASSERT_EQ(read.processes_size(), 1);
  EXPECT_FALSE(read.processes(0).has_ras());
}

TEST_F(RasReaderTest, AsksNothingForAnotherNode) {
  const v1::NodeProgress read = Read(Node(1), Targets("other"));
  ASSERT_EQ(read.processes_size(), 1);
  EXPECT_FALSE(read.processes(0).has_ras());
}

TEST_F(RasReaderTest, TooManyRequestsAreAnsweredWithoutRas) {
  constexpr size_t kRequests = 100;
  std::promise<void> sent;
  const std::shared_future<void> all_sent = sent.get_future().share();
  reader_ = std::make_unique<RasReader>(access_, *loop_, RasLimits(), [all_sent](Loopback::Family) {
    all_sent.wait();
    return TcpTable::Parse("");
  });
  size_t answers = 0, without = 0;
  loop_->Post([&] {
    for (size_t i = 0; i < kRequests; ++i) {
      reader_->AddTo(Node(1), Targets("boot"), [&](const v1::NodeProgress& read) {
        without += read.processes(0).ras().problem() == "the daemon had no time left for it: ask again";
        if (++answers == kRequests) loop_->Stop();
      });
    }
    sent.set_value();
  });
  loop_->Run();
  EXPECT_EQ(answers, kRequests);
  // The thread may have taken one of the queue, or not yet.
  EXPECT_LE(without, kRequests - RasReader::kMostRequests);
  EXPECT_GE(without, kRequests - RasReader::kMostRequests - 1);
}

}  // namespace
}  // namespace lockstep::daemon
