#include "base/rpc/job_token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/rpc/status_macros.h"

namespace lockstep::rpc {
namespace {

constexpr absl::string_view kPrefix = "lockstep-job-1.";
constexpr absl::string_view kKeyLabel = "lockstep job token 1";
constexpr size_t kLongestJob = 256;
constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr char kViewer[] = "viewer";
constexpr char kOperator[] = "operator";

using Mac = std::array<unsigned char, 32>;

Mac MacOf(const void* key, size_t key_bytes, absl::string_view text) {
  Mac mac{};
  unsigned size = mac.size();
  HMAC(EVP_sha256(), key, static_cast<int>(key_bytes), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), mac.data(), &size);
  return mac;
}

struct Parts {
  absl::string_view claims;
  absl::string_view covered;  // by the signature
  std::string signature;      // as bytes
  std::string authority;
};

std::optional<Parts> Split(absl::string_view text) {
  if (!absl::StartsWith(text, kPrefix) || text.size() > kLongestJobToken) return std::nullopt;
  const std::vector<absl::string_view> fields = absl::StrSplit(text, '.');
  if (fields.size() != 3 && fields.size() != 4) return std::nullopt;
  Parts parts = {fields[1], text.substr(0, fields[0].size() + 1 + fields[1].size()), "", ""};
  if (!absl::WebSafeBase64Unescape(fields[2], &parts.signature)) return std::nullopt;
  if (fields.size() == 4 && !absl::WebSafeBase64Unescape(fields[3], &parts.authority)) return std::nullopt;
  return parts;
}

Mac SignatureOf(std::string_view secret, absl::string_view covered) {
  const Mac key = MacOf(secret.data(), secret.size(), kKeyLabel);
  return MacOf(key.data(), key.size(), covered);
}

absl::Status Malformed() { return absl::InvalidArgumentError("the text is not a token for one job"); }

}  // namespace

bool IsJobToken(std::string_view text) {
  return absl::StartsWith(absl::string_view(text.data(), text.size()), kPrefix);
}

std::string_view SentPart(std::string_view job_token) {
  size_t dot = job_token.find('.');
  for (int part = 0; part < 2 && dot != std::string_view::npos; ++part) dot = job_token.find('.', dot + 1);
  return job_token.substr(0, dot);
}

absl::StatusOr<std::string> MakeJobToken(std::string_view secret, const JobClaims& claims) {
  if (claims.job.empty() || claims.job.size() > kLongestJob)
    return absl::InvalidArgumentError(absl::StrCat("the name of a job has 1 to ", kLongestJob, " bytes"));
  const std::string text =
      absl::StrJoin({absl::WebSafeBase64Escape(claims.job), absl::StrCat(claims.owner),
                     std::string(claims.role == JobClaims::Role::kOperator ? kOperator : kViewer),
                     absl::StrCat(claims.until.ns() / kNanosPerSecond)},
                    "\n");
  const std::string covered = absl::StrCat(kPrefix, absl::WebSafeBase64Escape(text));
  const Mac mac = SignatureOf(secret, covered);
  std::string token = absl::StrCat(
      covered, ".",
      absl::WebSafeBase64Escape(absl::string_view(reinterpret_cast<const char*>(mac.data()), mac.size())));
  if (!claims.authority.empty()) absl::StrAppend(&token, ".", absl::WebSafeBase64Escape(claims.authority));
  if (token.size() > kLongestJobToken) {
    return absl::InvalidArgumentError(
        "the authority's certificates are too long for a token: make it without them, and give --tls-dir "
        "with the token");
  }
  return token;
}

absl::StatusOr<JobClaims> ReadJobToken(std::string_view text) {
  const std::optional<Parts> parts = Split({text.data(), text.size()});
  std::string lines;
  if (!parts || !absl::WebSafeBase64Unescape(parts->claims, &lines)) return Malformed();
  const std::vector<std::string> fields = absl::StrSplit(lines, '\n');
  JobClaims claims;
  int64_t seconds = 0;
  if (fields.size() != 4 || !absl::WebSafeBase64Unescape(fields[0], &claims.job) || claims.job.empty() ||
      claims.job.size() > kLongestJob || !absl::SimpleAtoi(fields[1], &claims.owner) ||
      (fields[2] != kViewer && fields[2] != kOperator) || !absl::SimpleAtoi(fields[3], &seconds) ||
      seconds < 0 || seconds > std::numeric_limits<int64_t>::max() / kNanosPerSecond)
    return Malformed();
  claims.authority = parts->authority;
  claims.role = fields[2] == kOperator ? JobClaims::Role::kOperator : JobClaims::Role::kViewer;
  claims.until = HostTime(seconds * kNanosPerSecond);
  return claims;
}

absl::StatusOr<JobClaims> CheckJobToken(std::string_view secret, std::string_view sent, HostTime now) {
  const std::optional<Parts> parts = Split({sent.data(), sent.size()});
  if (!parts) return absl::UnauthenticatedError(Malformed().message());
  const Mac expected = SignatureOf(secret, parts->covered);
  if (parts->signature.size() != expected.size() ||
      CRYPTO_memcmp(parts->signature.data(), expected.data(), expected.size()) != 0) {
    return absl::UnauthenticatedError(
        "this aggregator did not sign the job's token: it is of another aggregator, or was changed");
  }
  absl::StatusOr<JobClaims> claims = ReadJobToken(sent);
  if (!claims.ok()) return absl::UnauthenticatedError(claims.status().message());
  if (now >= claims->until) {
    return absl::UnauthenticatedError(
        absl::StrCat("the token for job ", claims->job, " has expired: get a new one"));
  }
  return claims;
}

}  // namespace lockstep::rpc
