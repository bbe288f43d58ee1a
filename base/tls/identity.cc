#include "base/tls/identity.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace lockstep::tls {
namespace {

constexpr std::string_view kAggregator = "lockstep://aggregator";
constexpr std::string_view kNode = "lockstep://node/";
constexpr std::string_view kUser = "lockstep://user/";
constexpr size_t kLongestName = 64;

}  // namespace

bool IsName(std::string_view name) {
  constexpr std::string_view kOthers = "._-:@";
  return !name.empty() && name.size() <= kLongestName && absl::ascii_isalnum(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return absl::ascii_isalnum(c) || kOthers.find(c) != std::string_view::npos;
         });
}

const char* KindName(Holder holder) {
  return holder == Holder::kAggregator ? "aggregator" : holder == Holder::kNode ? "node" : "user";
}

std::string UriOf(const Identity& identity) {
  switch (identity.holder) {
    case Holder::kAggregator:
      return std::string(kAggregator);
    case Holder::kNode:
      return std::string(kNode) + identity.name;
    case Holder::kUser:
      return std::string(kUser) + identity.name;
  }
  return "";
}

std::optional<Identity> IdentityOfUri(std::string_view uri) {
  if (uri == kAggregator) return Identity{Holder::kAggregator, ""};
  for (const auto& [prefix, holder] : {std::pair(kNode, Holder::kNode), std::pair(kUser, Holder::kUser)}) {
    if (uri.starts_with(prefix) && IsName(uri.substr(prefix.size())))
      return Identity{holder, std::string(uri.substr(prefix.size()))};
  }
  return std::nullopt;
}

std::string TextOf(const Identity& identity) {
  if (identity.holder == Holder::kAggregator) return "the aggregator";
  return absl::StrCat(identity.holder == Holder::kNode ? "node " : "user ", identity.name);
}

}  // namespace lockstep::tls
