#include "base/rpc/job_token.h"

#include <string>

#include "gtest/gtest.h"

namespace lockstep::rpc {
namespace {

constexpr char kSecret[] = "0123456789abcdef0123456789abcdef";
constexpr HostTime kUntil{1'800'000'000'000'000'000};
constexpr HostTime kBefore = kUntil - Nanos::Seconds(1);

JobClaims Claims() {
  return {.job = "train 7\n/x",
          .owner = 1000,
          .role = JobClaims::Role::kOperator,
          .until = kUntil,
          .authority = "PEM"};
}

TEST(JobTokenTest, AllowsWhatItClaims) {
  const std::string token = *MakeJobToken(kSecret, Claims());
  EXPECT_TRUE(IsJobToken(token));
  EXPECT_EQ(token.find('\n'), std::string::npos);
  EXPECT_EQ(ReadJobToken(token)->authority, "PEM");
  const auto claims = CheckJobToken(kSecret, SentPart(token), kBefore);
  ASSERT_TRUE(claims.ok()) << claims.status();
  EXPECT_EQ(claims->job, "train 7\n/x");
  EXPECT_EQ(claims->role, JobClaims::Role::kOperator);
  EXPECT_EQ(claims->until, kUntil);
  EXPECT_EQ(claims->owner, 1000u);
  EXPECT_EQ(claims->authority, "");
}

TEST(JobTokenTest, Expires) {
  const std::string token = *MakeJobToken(kSecret, Claims());
  EXPECT_EQ(CheckJobToken(kSecret, token, kUntil).status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(ReadJobToken(token).ok());
}

TEST(JobTokenTest, EveryChangeIsRefused) {
  const std::string token(SentPart(*MakeJobToken(kSecret, Claims())));
  for (size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    const auto checked = CheckJobToken(kSecret, changed, kBefore);
    // The last character of base64 has bits without a meaning.
    EXPECT_TRUE(!checked.ok() || i + 1 == token.size()) << i;
  }
  EXPECT_FALSE(CheckJobToken("another secret", token, kBefore).ok());
  EXPECT_FALSE(CheckJobToken(kSecret, token.substr(0, token.rfind('.')), kBefore).ok());
  EXPECT_FALSE(CheckJobToken(kSecret, token.substr(0, token.rfind('.') + 1), kBefore).ok());
  EXPECT_FALSE(CheckJobToken(kSecret, "", kBefore).ok());
  EXPECT_FALSE(CheckJobToken(kSecret, std::string(10'000, 'x'), kBefore).ok());
}

TEST(JobTokenTest, AnotherJobsClaimsDoNotFitTheSignature) {
  JobClaims other = Claims();
  other.job = "other";
  const std::string mine(SentPart(*MakeJobToken(kSecret, Claims())));
  const std::string others(SentPart(*MakeJobToken(kSecret, other)));
  const std::string mixed = others.substr(0, others.rfind('.')) + mine.substr(mine.rfind('.'));
  EXPECT_EQ(CheckJobToken(kSecret, mixed, kBefore).status().code(), absl::StatusCode::kUnauthenticated);
}

TEST(JobTokenTest, NeedsAJob) {
  JobClaims claims = Claims();
  claims.job = "";
  EXPECT_EQ(MakeJobToken(kSecret, claims).status().code(), absl::StatusCode::kInvalidArgument);
  claims.job = std::string(257, 'x');
  EXPECT_EQ(MakeJobToken(kSecret, claims).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(JobTokenTest, HasNoRoomForManyAuthorities) {
  JobClaims claims = Claims();
  claims.authority = std::string(7000, 'x');
  EXPECT_EQ(MakeJobToken(kSecret, claims).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::rpc
