#include "daemon/ras/tcp_table.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/files/read_files.h"

namespace lockstep::daemon {
namespace {

constexpr size_t kLocal = 1, kRemote = 2, kState = 3, kUid = 7, kFewestFields = 8;
constexpr std::string_view kListens = "0A";

// The kernel writes an address as words of 32 bits in the machine's byte order.
template <size_t kBytes>
std::string AddressText(const void* address, uint16_t port) {
  uint32_t words[kBytes / sizeof(uint32_t)];
  std::memcpy(words, address, sizeof(words));
  std::string text;
  for (const uint32_t word : words) absl::StrAppendFormat(&text, "%08X", word);
  absl::StrAppendFormat(&text, ":%04X", port);
  return text;
}

std::string LoopbackText(Loopback::Family family, uint16_t port) {
  const in_addr ip4 = {htonl(INADDR_LOOPBACK)};
  return family == Loopback::Family::kIp4 ? AddressText<4>(&ip4, port)
                                          : AddressText<16>(&in6addr_loopback, port);
}
std::string AnyText(Loopback::Family family, uint16_t port) {
  const in_addr ip4 = {INADDR_ANY};
  return family == Loopback::Family::kIp4 ? AddressText<4>(&ip4, port) : AddressText<16>(&in6addr_any, port);
}

}  // namespace

TcpTable TcpTable::Parse(std::string_view text) {
  TcpTable table;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    Socket socket;
    if (fields.size() < kFewestFields || !absl::SimpleAtoi(fields[kUid], &socket.uid)) continue;
    socket.local = std::string(fields[kLocal]);
    socket.remote = std::string(fields[kRemote]);
    socket.state = std::string(fields[kState]);
    table.sockets_.push_back(std::move(socket));
  }
  return table;
}

std::vector<uid_t> TcpTable::ListenersOn(const Loopback& address) const {
  const std::string own = LoopbackText(address.family, address.port);
  const std::string any = AnyText(address.family, address.port);
  std::vector<uid_t> users;
  for (const Socket& socket : sockets_) {
    if (socket.state == kListens && (socket.local == own || socket.local == any)) users.push_back(socket.uid);
  }
  std::sort(users.begin(), users.end());
  users.erase(std::unique(users.begin(), users.end()), users.end());
  return users;
}

std::optional<uid_t> TcpTable::UserOfPeer(const Loopback& address, uint16_t own_port) const {
  const std::string peer = LoopbackText(address.family, address.port);
  const std::string own = LoopbackText(address.family, own_port);
  for (const Socket& socket : sockets_) {
    if (socket.local == peer && socket.remote == own) return socket.uid;
  }
  return std::nullopt;
}

TcpTable ReadTcpTable(Loopback::Family family) {
  InputFile file =
      OpenInputFile(family == Loopback::Family::kIp4 ? "/proc/self/net/tcp" : "/proc/self/net/tcp6");
  return TcpTable::Parse(file.fd.ok() ? RestOf(file).value_or("") : "");
}

}  // namespace lockstep::daemon
