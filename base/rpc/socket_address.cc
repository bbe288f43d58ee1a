#include "base/rpc/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "absl/strings/str_cat.h"

namespace lockstep::rpc {
namespace {

const sockaddr_in& V4(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in&>(address);
}
const sockaddr_in6& V6(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in6&>(address);
}

}  // namespace

int PortOf(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6 ? V6(address).sin6_port : V4(address).sin_port);
}

void SetPort(sockaddr_storage& address, int port) {
  const auto bytes = htons(static_cast<uint16_t>(port));
  if (address.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = bytes;
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = bytes;
  }
}

std::string HostText(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family != AF_INET6) {
    inet_ntop(AF_INET, &V4(address).sin_addr, text, sizeof(text));
    return text;
  }
  inet_ntop(AF_INET6, &V6(address).sin6_addr, text, sizeof(text));
  const uint32_t link = V6(address).sin6_scope_id;
  return link == 0 ? absl::StrCat("[", text, "]") : absl::StrCat("[", text, "%", link, "]");
}

std::string HostAndPortText(const sockaddr_storage& address) {
  return absl::StrCat(HostText(address), ":", PortOf(address));
}

}  // namespace lockstep::rpc
