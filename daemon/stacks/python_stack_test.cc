// Compares with the interpreters' own fault handler, for each Python of PATH.
#include "daemon/stacks/python_stack.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/node/temp_folder_fake.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

// Writes what the interpreter says of its main thread, and sleeps on the same line.
constexpr char kProgram[] = R"(
import faulthandler, sys, threading, time
class Trainer:
    def step(self, depth):
        if depth:
            return self.step(depth - 1)
        return (lambda: self.wait(
            open(sys.argv[1], "w")))()
    def wait(self, out):
        größe_名 = [1, 2,
            3]
        faulthandler.dump_traceback(out, all_threads=False), print("end", file=out, flush=True), time.sleep(100)
def batches():
    yield Trainer().step(2)
threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
for batch in batches():
    pass
)";

std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A program that runs until the end of the test.
class Program {
 public:
  explicit Program(std::vector<std::string> words) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (posix_spawnp(&pid_, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) pid_ = -1;
  }
  ~Program() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  v1::PythonStack Stack() const {
    const std::string folder = absl::StrCat("/proc/", pid_);
    const MemoryFile memory(Fd(open((folder + "/mem").c_str(), O_RDONLY | O_CLOEXEC)));
    return ReadPythonStack(memory, ReadAll(folder + "/maps"));
  }

 private:
  pid_t pid_ = -1;
};

// Converts to the fault handler's form. From 3.11 on, functions have the names of their class and of the
// functions around them.
std::string AsFaultHandler(const v1::PythonStack& stack) {
  std::string text;
  for (const v1::PythonFrame& frame : stack.frames()) {
    absl::StrAppend(&text, "  File \"", frame.file(), "\", line ", frame.line(), " in ",
                    frame.function().substr(frame.function().rfind('.') + 1), "\n");
  }
  return text;
}

class PythonStackTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    // The system's Python is always tested. Few machines have the other releases, which Debian does not have.
    const bool optional = std::string(GetParam()) != "python3";
    if (optional && std::system(absl::StrCat(GetParam(), " --version >/dev/null 2>&1").c_str()) != 0)
      GTEST_SKIP() << GetParam() << " is not installed";
    script_ = folder_.path() + "/train.py";
    std::ofstream(script_) << kProgram;
  }

  // Returns what the program wrote of itself.
  std::string WaitForDump() const {
    for (int i = 0; i < 1000; ++i) {
      const std::string dump = ReadAll(folder_.path() + "/dump");
      if (dump.ends_with("end\n")) return dump.substr(0, dump.size() - 4);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return "";
  }

  TempFolder folder_;
  std::string script_;
};

TEST_P(PythonStackTest, EqualsTheInterpretersOwn) {
  const Program program({GetParam(), script_, folder_.path() + "/dump"});
  const std::string dump = WaitForDump();
  const size_t first = dump.find('\n') + 1;  // after the headline
  ASSERT_NE(dump, "");
  const v1::PythonStack stack = program.Stack();
  EXPECT_EQ(AsFaultHandler(stack), dump.substr(first));
  EXPECT_EQ(stack.frames_size(), 7);
  EXPECT_FALSE(stack.more());
  EXPECT_EQ(stack.problem(), "");
  // It needs nothing of the process.
  kill(program.pid(), SIGSTOP);
  EXPECT_EQ(AsFaultHandler(program.Stack()), dump.substr(first));
}

TEST_P(PythonStackTest, EndsADeepStack) {
  const Program program({GetParam(), "-c",
                         absl::StrCat("import time\ndef f(n):\n  if n: f(n - 1)\n  open('", folder_.path(),
                                      "/dump', 'w').write('end\\n'); time.sleep(100)\nf(300)")});
  WaitForDump();
  const v1::PythonStack stack = program.Stack();
  EXPECT_EQ(stack.frames_size(), kMostPythonFrames);
  EXPECT_TRUE(stack.more());
}

INSTANTIATE_TEST_SUITE_P(Interpreters, PythonStackTest,
                         ::testing::Values("python3", "python3.8", "python3.9", "python3.10", "python3.11",
                                           "python3.12", "python3.13", "python3.14"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::erase(name, '.');
                           return name;
                         });

TEST(PythonStack, OtherProgramsHaveNone) {
  const Program program({"sleep", "100"});
  const v1::PythonStack stack = program.Stack();
  EXPECT_EQ(stack.frames_size(), 0);
  EXPECT_EQ(stack.problem(), "the process runs no Python");
}

TEST(PythonStack, AProcessThatHasEndedHasNone) {
  std::string maps;
  {
    const Program program({"sleep", "100"});
    maps = ReadAll(absl::StrCat("/proc/", program.pid(), "/maps"));
  }
  EXPECT_EQ(ReadPythonStack(MemoryFile(Fd()), maps).problem(), "the process runs no Python");
}

}  // namespace
}  // namespace lockstep::daemon
