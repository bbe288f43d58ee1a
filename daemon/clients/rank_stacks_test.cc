// The stacks are those of this process, which runs no Python.
#include "daemon/clients/rank_stacks.h"

#include <unistd.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "daemon/node/own_access.h"
#include "daemon/node/process.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

class RankStacksTest : public testing::Test {
 protected:
  // Processes of which all but the last are this one.
  static v1::NodeProgress Node(int processes) {
    const ProcessId self = FindProcess(OwnAccess(), getpid())->id;
    v1::NodeProgress node;
    node.set_node_id("boot");
    for (int i = 0; i < processes; ++i)
      ToProto(self, node.add_processes()->mutable_rank()->mutable_process());
    return node;
  }
  static v1::StackTarget& Add(RankStacks::Targets& targets, const std::string& node) {
    v1::StackTarget& target = *targets.Add();
    target.set_node_id(node);
    *target.mutable_process() = Node(1).processes(0).rank().process();
    return target;
  }
  // Waits for the answer.
  v1::NodeProgress Read(v1::NodeProgress node, const RankStacks::Targets& targets) {
    v1::NodeProgress answer;
    loop_->Post([&] {
      reader_->AddTo(std::move(node), targets, StackKinds::kPython, [&](v1::NodeProgress read) {
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
  std::unique_ptr<RankStacks> reader_ = std::make_unique<RankStacks>(access_, *loop_);
};

TEST_F(RankStacksTest, ReadsOnlyLivingTargetsOfThisNode) {
  v1::NodeProgress node = Node(3);
  node.mutable_processes(1)->set_gone_unix_ns(1);
  node.mutable_processes(2)->mutable_rank()->mutable_process()->set_start_ticks(1);  // another process
  RankStacks::Targets targets;
  Add(targets, "boot");
  const v1::NodeProgress read = Read(node, targets);
  ASSERT_EQ(read.processes_size(), 3);
  EXPECT_EQ(read.processes(0).stacks().python().problem(), "the process runs no Python");
  EXPECT_FALSE(read.processes(1).has_stacks());
  EXPECT_FALSE(read.processes(2).has_stacks());
}

TEST_F(RankStacksTest, ReadsNothingForAnotherNode) {
  RankStacks::Targets targets;
  Add(targets, "other");
  const v1::NodeProgress read = Read(Node(1), targets);
  ASSERT_EQ(read.processes_size(), 1);
  EXPECT_FALSE(read.processes(0).has_stacks());
}

TEST_F(RankStacksTest, ReadsALimitedNumber) {
  RankStacks::Targets targets;
  Add(targets, "boot");
  size_t stacks = 0;
  const v1::NodeProgress read = Read(Node(20), targets);
  for (const v1::ProcessProgress& process : read.processes()) stacks += process.has_stacks();
  EXPECT_EQ(stacks, RankStacks::kMostStacks);
}

TEST_F(RankStacksTest, TooManyRequestsAreAnsweredWithoutStacks) {
  RankStacks::Targets targets;
  Add(targets, "boot");
  constexpr size_t kRequests = 100;
  size_t answers = 0, without = 0;
  loop_->Post([&] {
    for (size_t i = 0; i < kRequests; ++i) {
      reader_->AddTo(Node(8), targets, StackKinds::kPython, [&](const v1::NodeProgress& read) {
        without += read.processes(0).stacks().python().problem().find("no time") != std::string::npos;
        if (++answers == kRequests) loop_->Stop();
      });
    }
  });
  loop_->Run();
  EXPECT_EQ(answers, kRequests);
  EXPECT_GT(without, 0u) << "only some of them may wait";
  EXPECT_LT(without, kRequests);
}

TEST_F(RankStacksTest, EndsWithRequestsThatWait) {
  RankStacks::Targets targets;
  Add(targets, "boot");
  for (int i = 0; i < 10; ++i)
    reader_->AddTo(Node(8), targets, StackKinds::kPython, [](const v1::NodeProgress&) { FAIL(); });
  reader_.reset();
}

}  // namespace
}  // namespace lockstep::daemon
