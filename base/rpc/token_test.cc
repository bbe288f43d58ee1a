#include "base/rpc/token.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <thread>

#include "gtest/gtest.h"

namespace lockstep::rpc {
namespace {

class TokenFiles : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep-token-XXXXXX";
    folder_ = mkdtemp(name);
    path_ = folder_ + "/token";
  }
  void TearDown() override {
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }
  void Write(const std::string& text, mode_t mode) {
    std::ofstream(path_) << text;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  std::string folder_;
  std::string path_;
};

TEST_F(TokenFiles, AreCreatedOnceWithMode600) {
  const auto made = Token::LoadOrCreate(path_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->text().size(), 64u);
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(Token::LoadOrCreate(path_)->text(), made->text());
  EXPECT_EQ(Token::Load(path_)->text(), made->text());
}

TEST_F(TokenFiles, CreatedConcurrentlyAreTheSameForAll) {
  std::vector<std::thread> makers;
  std::vector<std::string> texts(8);
  for (size_t i = 0; i < texts.size(); ++i) {
    makers.emplace_back([&, i] {
      // Each process has its own name for the temporary file. The threads of one process share it, collide
      // and retry.
      for (int tries = 0; tries < 1000 && texts[i].empty(); ++tries) {
        if (auto token = Token::LoadOrCreate(path_); token.ok()) texts[i] = token->text();
      }
    });
  }
  for (std::thread& t : makers) t.join();
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), 1u);
  EXPECT_EQ(texts[0].size(), 64u);
}

TEST_F(TokenFiles, ReadableByOthersAreRefusedWithTheRemedy) {
  Write("0123456789abcdef\n", 0644);
  const absl::Status status = Token::Load(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(std::string(status.message()).find("chmod 600 " + path_), std::string::npos);
}

TEST_F(TokenFiles, OfRootMayBeReadableByAGroup) {
  // The file belongs to root and another user reads it. Only root can create the file and change to the other
  // user. CI runs as root.
  if (geteuid() != 0) GTEST_SKIP() << "only root can make such a file";
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  const auto as_other = [&](mode_t mode) {
    Write("0123456789abcdef\n", mode);
    EXPECT_EQ(chown(path_.c_str(), 0, 4242), 0);
    const pid_t child = fork();
    if (child == 0) {
      if (setresgid(4242, 4242, 4242) != 0 || setresuid(4242, 4242, 4242) != 0) _exit(100);
      const absl::Status status = Token::Load(path_).status();
      _exit(status.ok() ? 0 : absl::IsPermissionDenied(status) ? 1 : 2);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(as_other(0440), 0);
  EXPECT_EQ(as_other(0640), 0);
  EXPECT_EQ(as_other(0460), 1) << "whose group may change it";
  EXPECT_EQ(as_other(0444), 1) << "that everybody may read";
}

TEST_F(TokenFiles, LinkedMissingOrInvalidAreRefused) {
  EXPECT_EQ(Token::Load(path_).status().code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(symlink("/etc/hostname", path_.c_str()), 0);
  EXPECT_FALSE(Token::Load(path_).ok());
  unlink(path_.c_str());
  for (const std::string& bad :
       {std::string(), std::string("short"), std::string(300, 'x'), std::string("has a space in it!")}) {
    Write(bad, 0600);
    EXPECT_EQ(Token::Load(path_).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(Tokens, MatchOnlyThemselves) {
  const Token token = *Token::FromText("0123456789abcdef");
  EXPECT_TRUE(token.Matches("0123456789abcdef"));
  for (const char* other : {"", "0", "0123456789abcdeF", "0123456789abcdef0", "0123456789abcde",
                            "0123456789abcdef0123456789abcdef"}) {
    EXPECT_FALSE(token.Matches(other)) << other;
  }
  EXPECT_FALSE(Token().Matches(""));
}

TEST(Tokens, AreRandom) { EXPECT_NE(Token::Random()->text(), Token::Random()->text()); }

}  // namespace
}  // namespace lockstep::rpc
