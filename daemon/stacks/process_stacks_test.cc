// Reads the stacks of children of this test, which wait or compute in known functions.
#include "daemon/stacks/process_stacks.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define LOCKSTEP_THREAD_SANITIZER
#endif
#endif

namespace lockstep::daemon {
namespace {

// Functions with C names that are not inlined. Each reads `kept` after its call, so its frame stays.
#define LOCKSTEP_FRAME extern "C" [[gnu::noinline]]

volatile int kept = 0;

}  // namespace

LOCKSTEP_FRAME int WaitForEver() {
  while (true) pause();
  return kept;
}
LOCKSTEP_FRAME int ComputeForEver() {
  while (true) kept = kept + 1;
  return kept;
}
// Waits uninterruptibly in the kernel until its own child has ended, and then as the first one.
LOCKSTEP_FRAME int WaitForVfork() {
  if (vfork() == 0) {
    pause();
    _exit(0);
  }
  return WaitForEver();
}
LOCKSTEP_FRAME int StepWith(int (*end)()) { return end() + kept; }
LOCKSTEP_FRAME int TrainWith(int (*end)()) { return StepWith(end) + kept; }

namespace {

class Child {
 public:
  enum class Thread : uint8_t { kNone, kComputing };

  Child(int (*end)(), Thread thread) {
    int ready[2];
    if (pipe(ready) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      pthread_t other;
      if (thread == Thread::kComputing) {
        pthread_create(
            &other, nullptr, [](void*) { return reinterpret_cast<void*>(TrainWith(&ComputeForEver)); },
            nullptr);
      }
      if (write(ready[1], "x", 1) != 1) _exit(1);
      TrainWith(end);
      _exit(0);
    }
    char byte = 0;
    if (read(ready[0], &byte, 1) != 1) ADD_FAILURE();
    close(ready[0]);
    close(ready[1]);
    usleep(50'000);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  v1::ProcessStacks Stacks() const {
    const std::string folder = absl::StrCat("/proc/", pid_);
    const MemoryFile memory(Fd(open((folder + "/mem").c_str(), O_RDONLY | O_CLOEXEC)));
    return ProcessStacksReader(pid_, memory, StackKinds::kPythonAndNative).Read(Text("/maps"));
  }
  std::string Text(const char* file) const {
    std::ostringstream text;
    text << std::ifstream(absl::StrCat("/proc/", pid_, file)).rdbuf();
    return text.str();
  }
  char State() const {
    const std::string stat = Text("/stat");
    return stat[stat.rfind(')') + 2];
  }
  // Returns false if it does not have the state within 10 s.
  bool WaitForState(char state) const {
    for (int i = 0; i < 10'000 && State() != state; ++i) usleep(1000);
    return State() == state;
  }

 private:
  pid_t pid_ = -1;
};

std::vector<std::string> Symbols(const v1::NativeStack& stack) {
  std::vector<std::string> symbols;
  for (const v1::NativeFrame& frame : stack.frames()) symbols.push_back(frame.symbol());
  return symbols;
}

// Returns whether the symbols contain these, one after another.
bool HasCalls(const v1::NativeStack& stack, const std::vector<std::string>& calls) {
  const std::vector<std::string> symbols = Symbols(stack);
  return std::search(symbols.begin(), symbols.end(), calls.begin(), calls.end()) != symbols.end();
}

TEST(ProcessStacks, ShowTheCallsOfAThreadThatWaits) {
  const Child child(&WaitForEver, Child::Thread::kNone);
  const v1::ProcessStacks stacks = child.Stacks();
  ASSERT_EQ(stacks.native_problem(), "");
  ASSERT_EQ(stacks.native_size(), 1);
  const v1::NativeStack& main = stacks.native(0);
  EXPECT_EQ(main.tid(), child.pid());
  EXPECT_EQ(main.frames(0).file(), "libc.so.6");
  EXPECT_TRUE(HasCalls(main, {"WaitForEver", "StepWith", "TrainWith"})) << main.DebugString();
  EXPECT_TRUE(HasCalls(main, {"main"})) << "it is whole";
  EXPECT_EQ(stacks.python().problem(), "the process runs no Python");
  EXPECT_TRUE(child.WaitForState('S')) << "it goes on";
}

TEST(ProcessStacks, ShowAThreadThatComputes) {
  const Child child(&ComputeForEver, Child::Thread::kNone);
  const v1::ProcessStacks stacks = child.Stacks();
  ASSERT_EQ(stacks.native_size(), 1) << stacks.native_problem();
  EXPECT_TRUE(HasCalls(stacks.native(0), {"ComputeForEver", "StepWith", "TrainWith"}))
      << stacks.native(0).DebugString();
  EXPECT_TRUE(child.WaitForState('R'));
}

TEST(ProcessStacks, LeaveAStoppedProcessStopped) {
  const Child child(&WaitForEver, Child::Thread::kNone);
  kill(child.pid(), SIGSTOP);
  ASSERT_TRUE(child.WaitForState('T'));
  for (int i = 0; i < 3; ++i) {
    const v1::ProcessStacks stacks = child.Stacks();
    ASSERT_EQ(stacks.native_size(), 1) << stacks.native_problem();
    EXPECT_TRUE(HasCalls(stacks.native(0), {"WaitForEver", "StepWith", "TrainWith"}));
    EXPECT_TRUE(child.WaitForState('T'));
  }
  kill(child.pid(), SIGCONT);
  EXPECT_TRUE(child.WaitForState('S'));
}

TEST(ProcessStacks, LeaveOutThreadsBesideCudaAndNccl) {
  const Child child(&WaitForEver, Child::Thread::kComputing);
  const v1::ProcessStacks stacks = child.Stacks();
  ASSERT_EQ(stacks.native_size(), 1);
  EXPECT_EQ(stacks.native(0).tid(), child.pid());
}

TEST(ProcessStacks, AThreadThatCannotStopGoesOnLater) {
#ifdef LOCKSTEP_THREAD_SANITIZER
  // After a fork, the thread does not wait in the kernel. The other builds run this test.
  GTEST_SKIP() << "the thread sanitizer replaces vfork by fork";
#endif
  const Child child(&WaitForVfork, Child::Thread::kNone);
  ASSERT_TRUE(child.WaitForState('D'));
  EXPECT_EQ(child.Stacks().native_problem(),
            "none of its threads stopped in time: they are in an uninterruptible call");
  const pid_t grandchild = std::stoi(child.Text(absl::StrCat("/task/", child.pid(), "/children").c_str()));
  ASSERT_EQ(kill(grandchild, SIGKILL), 0);
  ASSERT_TRUE(child.WaitForState('S'));
  ASSERT_EQ(child.Stacks().native_size(), 1);
  EXPECT_TRUE(HasCalls(child.Stacks().native(0), {"WaitForEver"}));
}

TEST(ProcessStacks, AProcessThatHasEndedHasNone) {
  pid_t pid = 0;
  {
    const Child child(&WaitForEver, Child::Thread::kNone);
    pid = child.pid();
  }
  const v1::ProcessStacks stacks =
      ProcessStacksReader(pid, MemoryFile(Fd()), StackKinds::kPythonAndNative).Read("");
  EXPECT_EQ(stacks.native_size(), 0);
  EXPECT_NE(stacks.native_problem(), "");
}

}  // namespace
}  // namespace lockstep::daemon
