#include "tests/support/check_after_tests.h"

#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "gtest/gtest.h"

namespace lockstep::tests {
namespace {

std::string RunningTest() {
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  if (test == nullptr) return "no_test";
  std::string name = std::string(test->test_suite_name()) + "." + test->name();
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

class Checkers final : public ::testing::Environment {
 public:
  std::string Keep(const std::string& command, const std::string& ending, std::string_view bytes) {
    Kept& kept = kept_[{command, ending}];
    if (kept.folder.empty()) {
      std::string folder = ::testing::TempDir() + "lockstep-check-XXXXXX";
      if (mkdtemp(folder.data()) == nullptr) {
        ADD_FAILURE() << "cannot make " << folder;
        return "";
      }
      kept.folder = folder;
    }
    std::string path = kept.folder + "/" + RunningTest() + "-" + std::to_string(++kept.files) + ending;
    std::ofstream out(path, std::ios::binary);
    out << bytes;
    out.close();
    EXPECT_TRUE(out) << "cannot write " << path;
    return path;
  }

  void TearDown() override {
    for (const auto& [check, kept] : std::exchange(kept_, {})) {
      if (kept.folder.empty()) continue;
      if (Run(check.first, check.second, kept.folder)) {
        std::filesystem::remove_all(kept.folder);
      } else {
        ADD_FAILURE() << "the files are in " << kept.folder;
      }
    }
  }

 private:
  struct Kept {
    std::string folder;
    int files = 0;
  };

  static bool Run(const std::string& command, const std::string& ending, const std::string& folder) {
    FILE* pipe = ::popen(("cd '" + folder + "' && " + command + " *" + ending + " 2>&1").c_str(), "r");
    if (pipe == nullptr) {
      ADD_FAILURE() << "cannot run " << command;
      return false;
    }
    std::string output;
    char some[4096];
    for (size_t got; (got = fread(some, 1, sizeof some, pipe)) > 0;) output.append(some, got);
    const int status = ::pclose(pipe);
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) ADD_FAILURE() << line;
    if (status != 0 && output.empty()) ADD_FAILURE() << "status " << status << ": " << command;
    return status == 0 && output.empty();
  }

  std::map<std::pair<std::string, std::string>, Kept> kept_;  // by command and ending
};

// gtest owns the object. It is registered before main() begins.
Checkers* const checkers = [] {
  auto* made = new Checkers;
  ::testing::AddGlobalTestEnvironment(made);
  return made;
}();

}  // namespace

std::string CheckAfterTests(const std::string& command, const std::string& ending, std::string_view bytes) {
  return checkers->Keep(command, ending, bytes);
}

}  // namespace lockstep::tests
