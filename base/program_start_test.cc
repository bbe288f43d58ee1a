#include "base/program_start.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

class Environment {
 public:
  explicit Environment(std::vector<std::string> variables) : variables_(std::move(variables)) {
    for (std::string& variable : variables_) pointers_.push_back(variable.data());
    pointers_.push_back(nullptr);
  }
  char** get() { return pointers_.data(); }
  std::vector<std::string> Now() const {
    std::vector<std::string> out;
    for (size_t i = 0; pointers_[i] != nullptr; ++i) out.emplace_back(pointers_[i]);
    return out;
  }

 private:
  std::vector<std::string> variables_;
  std::vector<char*> pointers_;
};

TEST(ProgramStart, RestoresVariablesThatTheStarterRenamed) {
  Environment environment(
      {"A=1", "LOCKSTEP_STARTER_LD_PRELOAD=/x.so:/y.so", "B=", "LOCKSTEP_STARTER_LD_AUDIT=/z.so"});
  RestoreEnvironment(environment.get());
  EXPECT_EQ(environment.Now(),
            (std::vector<std::string>{"A=1", "LD_PRELOAD=/x.so:/y.so", "B=", "LD_AUDIT=/z.so"}));
}

TEST(ProgramStart, KeepsOtherVariables) {
  const std::vector<std::string> before = {"LOCKSTEP_START=1",
                                           "LOCKSTEP_STARTER",
                                           "XLOCKSTEP_STARTER_A=1",
                                           "",
                                           "=",
                                           "LOCKSTEP_SOCKET=/run/lockstep/client.sock"};
  Environment environment(before);
  RestoreEnvironment(environment.get());
  EXPECT_EQ(environment.Now(), before);
}

TEST(ProgramStart, AcceptsAnEmptyEnvironment) {
  Environment environment({});
  RestoreEnvironment(environment.get());
  RestoreEnvironment(nullptr);
  EXPECT_TRUE(environment.Now().empty());
}

TEST(ProgramStart, NamesTheProcessAfterTheProgram) {
  // The call runs on its own thread, so that the test program keeps its name.
  std::thread([] {
    Environment environment({});
    BeginProgram("lockstepd", environment.get());
    char name[16] = {};
    ASSERT_EQ(::prctl(PR_GET_NAME, name), 0);
    EXPECT_STREQ(name, "lockstepd");
  }).join();
}

}  // namespace
}  // namespace lockstep
