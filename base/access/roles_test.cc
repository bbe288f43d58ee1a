#include "base/access/roles.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

class StepClock final : public Clock {
 public:
  MonoTime Monotonic() const override { return now; }
  HostTime Realtime() const override { return HostTime(); }
  MonoTime now;
};

class FakeUsers final : public UserDirectory {
 public:
  std::string NameOf(uid_t user) const override {
    const auto found = names.find(user);
    return found == names.end() ? "" : found->second;
  }
  std::optional<uid_t> UserOf(const std::string&) const override { return std::nullopt; }
  std::optional<gid_t> GroupOf(uid_t) const override { return std::nullopt; }
  std::vector<std::string> GroupsOf(uid_t user) const override {
    ++group_reads;
    const auto found = groups.find(user);
    return found == groups.end() ? std::vector<std::string>() : found->second;
  }
  std::map<uid_t, std::string> names = {{1, "ann"}, {2, "bob"}};
  std::map<uid_t, std::vector<std::string>> groups = {{1, {"hpc"}}, {2, {"staff", "hpc"}}};
  mutable int group_reads = 0;
};

class RolesTest : public ::testing::Test {
 protected:
  Rights Of(uid_t user, const RoleSettings& settings) { return Roles(settings, users_, clock_).Of(user); }

  const std::shared_ptr<FakeUsers> users_ = std::make_shared<FakeUsers>();
  const std::shared_ptr<StepClock> clock_ = std::make_shared<StepClock>();
};

constexpr Rights kNone = {};
constexpr Rights kOperator = {.capture_own = true};

TEST_F(RolesTest, WithoutSettingsEachUserCapturesTheirOwnJobs) {
  EXPECT_EQ(Of(1, {}), kOperator);
  EXPECT_EQ(Of(77, {}), kOperator);
  EXPECT_EQ(Of(0, {}), Rights::All());
  EXPECT_EQ(users_->group_reads, 0);
}

TEST_F(RolesTest, EntriesAreUsersNumbersAndGroups) {
  const RoleSettings settings = {.viewers = {"ann"}, .operators = {"@hpc"}, .admins = {"77", "@staff"}};
  EXPECT_EQ(Of(1, settings), (Rights{.see_all = true, .capture_own = true}));
  EXPECT_EQ(Of(2, settings), Rights::All());
  EXPECT_EQ(Of(77, settings), Rights::All());
  EXPECT_EQ(Of(78, settings), kNone);
  EXPECT_EQ(Of(1, {.operators = {}}), kNone);
  EXPECT_EQ(Of(78, {.operators = {}, .admins = {"@", "", "78x", "@78"}}), kNone);
}

TEST_F(RolesTest, AUserWithoutANameIsNotEverybodyWithoutAName) {
  EXPECT_EQ(Of(78, {.operators = {""}}), kNone);
}

TEST_F(RolesTest, AChangeTakesEffectAfterAMinute) {
  const Roles roles({.operators = {}, .admins = {"@staff"}}, users_, clock_);
  EXPECT_EQ(roles.Of(1), kNone);
  users_->groups[1].emplace_back("staff");
  clock_->now += Nanos::Seconds(59);
  EXPECT_EQ(roles.Of(1), kNone);
  EXPECT_EQ(users_->group_reads, 1);
  clock_->now += Nanos::Seconds(1);
  EXPECT_EQ(roles.Of(1), Rights::All());
}

TEST_F(RolesTest, ChecksTheFormOfEntries) {
  EXPECT_TRUE(Roles::Check({"ann", "1000", "@hpc", "*", "DOMAIN\\ann", "ann.b-c_d"}).ok());
  for (const char* bad : {"", "@", "a b", "@@x", "a,b", "**", "@*", "a\n"})
    EXPECT_EQ(Roles::Check({bad}).code(), absl::StatusCode::kInvalidArgument) << bad;
}

TEST(SystemUsersTest, ReadsTheSystem) {
  const SystemUsers users;
  EXPECT_EQ(users.NameOf(0), "root");
  EXPECT_EQ(users.UserOf("root"), std::optional<uid_t>(0));
  EXPECT_EQ(users.UserOf("no-such-user-here"), std::nullopt);
  const std::vector<std::string> groups = users.GroupsOf(0);
  EXPECT_NE(std::find(groups.begin(), groups.end(), "root"), groups.end());
  EXPECT_TRUE(users.GroupsOf(4'000'000'000).empty());
}

}  // namespace
}  // namespace lockstep
