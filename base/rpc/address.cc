#include "base/rpc/address.h"

#include <sys/un.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace lockstep::rpc {
namespace {

constexpr char kUnixPrefix[] = "unix:";

absl::Status NoAddress(const std::string& text, const char* why) {
  return absl::InvalidArgumentError(
      absl::StrCat("address \"", text, "\": ", why, " (HOST:PORT or unix:/path)"));
}

}  // namespace

absl::StatusOr<Address> Address::Parse(const std::string& text) {
  Address address;
  if (absl::StartsWith(text, kUnixPrefix)) {
    address.path_ = text.substr(sizeof(kUnixPrefix) - 1);
    if (absl::StartsWith(address.path_, "//")) address.path_ = address.path_.substr(2);
    if (address.path_.empty()) return NoAddress(text, "the path is missing");
    if (address.path_.size() >= sizeof(sockaddr_un{}.sun_path)) {
      return NoAddress(text, "the path exceeds the 107 characters of a socket path");
    }
    return address;
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return NoAddress(text, "the port is missing");
  address.host_ = text.substr(0, colon);
  if (address.host_.size() > 2 && address.host_.front() == '[' && address.host_.back() == ']') {
    address.host_ = address.host_.substr(1, address.host_.size() - 2);
  } else if (address.host_.find(':') != std::string::npos) {
    return NoAddress(text, "an IPv6 address needs brackets, as in [::1]:4318");
  }
  if (address.host_.empty()) return NoAddress(text, "the host is missing");
  if (!absl::SimpleAtoi(text.substr(colon + 1), &address.port_) || address.port_ < 0 ||
      address.port_ > 65535) {
    return NoAddress(text, "the port must be a number from 0 to 65535");
  }
  return address;
}

std::string Address::target() const {
  if (is_unix()) return absl::StrCat(kUnixPrefix, path_);
  const bool v6 = host_.find(':') != std::string::npos;
  return v6 ? absl::StrCat("[", host_, "]:", port_) : absl::StrCat(host_, ":", port_);
}

}  // namespace lockstep::rpc
