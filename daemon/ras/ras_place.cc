#include "daemon/ras/ras_place.h"

#include <arpa/inet.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/log/clean_text.h"
#include "daemon/node/process_traits.h"

namespace lockstep::daemon {
namespace {

constexpr size_t kLongestAddress = 64;

absl::Status CannotUse(const std::string& address, const char* why) {
  return absl::FailedPreconditionError(
      absl::StrCat("NCCL_RAS_ADDR of the rank is ", CleanText(address, kLongestAddress), ", ", why));
}

}  // namespace

socklen_t Loopback::ToSocketAddress(sockaddr_storage& to) const {
  to = {};
  if (family == Family::kIp4) {
    auto& address = reinterpret_cast<sockaddr_in&>(to);
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sizeof(address);
  }
  auto& address = reinterpret_cast<sockaddr_in6&>(to);
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  address.sin6_addr = in6addr_loopback;
  return sizeof(address);
}

absl::StatusOr<RasPlace> RasPlaceOf(const std::string& environment) {
  using Family = Loopback::Family;
  if (EnvironmentValue(environment, "NCCL_RAS_ENABLE") == "0")
    return absl::FailedPreconditionError("it is off: NCCL_RAS_ENABLE is 0 in the rank's environment");
  const std::string set = EnvironmentValue(environment, "NCCL_RAS_ADDR");
  RasPlace place;
  place.name = set.empty() ? absl::StrCat("localhost:", kDefaultRasPort) : CleanText(set, kLongestAddress);
  if (set.empty()) {
    place.addresses = {{Family::kIp4, kDefaultRasPort}, {Family::kIp6, kDefaultRasPort}};
    return place;
  }
  const size_t colon = set.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(set.substr(colon + 1), &port) || port == 0 ||
      port > UINT16_MAX)
    return CannotUse(set, "which has no port");
  std::string host = set.substr(0, colon);
  const uint16_t number = static_cast<uint16_t>(port);
  if (host == "localhost") {
    place.addresses = {{Family::kIp4, number}, {Family::kIp6, number}};
    return place;
  }
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  in_addr ip4 = {};
  in6_addr ip6 = {};
  // Only 127.0.0.1 of its network is tried, and a socket on all addresses is reached there too.
  if (inet_pton(AF_INET, host.c_str(), &ip4) == 1 &&
      (ntohl(ip4.s_addr) == INADDR_LOOPBACK || ip4.s_addr == INADDR_ANY)) {
    place.addresses = {{Family::kIp4, number}};
  } else if (inet_pton(AF_INET6, host.c_str(), &ip6) == 1 &&
             (IN6_IS_ADDR_LOOPBACK(&ip6) || IN6_IS_ADDR_UNSPECIFIED(&ip6))) {
    place.addresses = {{Family::kIp6, number}};
  } else {
    return CannotUse(set, "and the daemon connects to localhost only: start the job with localhost");
  }
  return place;
}

}  // namespace lockstep::daemon
