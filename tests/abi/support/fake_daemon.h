// The daemon's side of the handshake, for tests. It listens, welcomes one client, arms and starts it, and
// collects records.
#ifndef LOCKSTEP_TESTS_ABI_SUPPORT_FAKE_DAEMON_H_
#define LOCKSTEP_TESTS_ABI_SUPPORT_FAKE_DAEMON_H_

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "base/fd.h"
#include "tests/abi/support/daemon_end.h"
#include "wire/ring/handshake.h"
#include "wire/ring/socket_io.h"

namespace lockstep::client {

// A folder for a socket with mode 0700. The destructor removes it.
class SocketFolder {
 public:
  SocketFolder() {
    char name[] = "/tmp/lockstep-client-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~SocketFolder() {
    ::unlink(socket().c_str());
    ::rmdir(path_.c_str());
  }
  std::string socket() const { return path_ + "/client.sock"; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class FakeDaemon {
 public:
  explicit FakeDaemon(const std::string& path) {
    ::unlink(path.c_str());
    listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    ok = ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
         ::listen(listener_.get(), 8) == 0;
  }

  // Waits for a client's Hello. `offered` receives the file that it passes, if any.
  bool AcceptHello(int milliseconds = 5000) { return Accept(milliseconds) && ReceiveHello(milliseconds); }
  // Waits for a client's Presence. Its Hello comes later on the same connection (ReceiveHello).
  bool AcceptPresence(int milliseconds = 5000) {
    return Accept(milliseconds) && Receive(ring::MessageType::kPresence, &presence, milliseconds);
  }
  bool ReceiveHello(int milliseconds = 5000) {
    return Receive(ring::MessageType::kHello, &hello, milliseconds);
  }
  bool RefuseClient(const char* reason) {
    ring::Refuse refuse{};
    std::strncpy(refuse.reason, reason, sizeof refuse.reason - 1);
    return Send(ring::MessageType::kRefuse, refuse);
  }
  bool WelcomeWithNewSegment(const ring::SegmentOptions& options = {.main_ring_bytes = 1 << 20,
                                                                    .ring_count = 8}) {
    end = std::make_unique<DaemonEnd>(options);
    ring::Welcome welcome{};
    welcome.layout_major = ring::kLayoutMajor;
    welcome.layout_minor = layout_minor;
    welcome.segment_bytes = end->segment.bytes();
    welcome.incarnation = options.incarnation;
    welcome.epoch = options.epoch;
    return Send(ring::MessageType::kWelcome, welcome, end->segment.fd());
  }
  bool Arm(uint64_t capture, uint32_t activities = ring::kDefaultActivities, uint64_t epoch = 1) {
    ring::Arm arm{};
    arm.capture = capture;
    arm.epoch = epoch;
    arm.activities = activities;
    return Send(ring::MessageType::kArm, arm);
  }
  bool Start(uint64_t capture, int64_t t0, int64_t t1) {
    ring::Start start{};
    start.capture = capture;
    start.t0_realtime_ns = t0;
    start.t1_realtime_ns = t1;
    return Send(ring::MessageType::kStart, start);
  }
  // Sends the fields of version 1.0, as an older daemon does.
  bool ShortStart(uint64_t capture, int64_t t0, int64_t t1) {
    ring::Start start{};
    start.header = {ring::kHandshakeMagic, ring::MessageType::kStart, ring::kStartBytes_1_0};
    start.capture = capture;
    start.t0_realtime_ns = t0;
    start.t1_realtime_ns = t1;
    return SendBytes(&start, ring::kStartBytes_1_0);
  }
  bool Stop(uint64_t capture, uint32_t abort) {
    ring::Stop stop{};
    stop.capture = capture;
    stop.abort = abort;
    return Send(ring::MessageType::kStop, stop);
  }
  std::optional<ring::State> WaitForState(int milliseconds = 8000) {
    ring::State state{};
    if (!Receive(ring::MessageType::kState, &state, milliseconds)) return std::nullopt;
    return state;
  }
  // `offered` receives the profile's file, if the message has one.
  std::optional<ring::Profile> WaitForProfile(int milliseconds = 8000) {
    ring::Profile profile{};
    if (!Receive(ring::MessageType::kProfile, &profile, milliseconds)) return std::nullopt;
    return profile;
  }
  // Returns true if the client closed the connection.
  bool PeerGone(int milliseconds) {
    pollfd wait{peer_.get(), POLLIN, 0};
    if (::poll(&wait, 1, milliseconds) != 1) return false;
    char byte;
    return ::recv(peer_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
  }
  // Closes the connection, as a daemon that dies.
  void HangUp() { peer_.reset(); }
  void StopListening() { listener_.reset(); }

  template <typename Message>
  bool Send(ring::MessageType type, Message message, int descriptor = -1) {
    message.header = {ring::kHandshakeMagic, type, sizeof message};
    return ring::SendPacket(peer_.get(), &message, sizeof message, descriptor) == ring::PacketStatus::kOk;
  }
  bool SendBytes(const void* bytes, size_t length) {
    return ring::SendPacket(peer_.get(), bytes, length) == ring::PacketStatus::kOk;
  }

  bool ok = false;
  uint32_t layout_minor = ring::kLayoutMinor;
  ring::Hello hello{};
  ring::Presence presence{};
  Fd offered;
  std::unique_ptr<DaemonEnd> end;

 private:
  bool Accept(int milliseconds) {
    pollfd wait{listener_.get(), POLLIN, 0};
    if (::poll(&wait, 1, milliseconds) != 1) return false;
    peer_.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return true;
  }

  template <typename Message>
  bool Receive(ring::MessageType type, Message* out, int milliseconds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    while (std::chrono::steady_clock::now() < until) {
      pollfd wait{peer_.get(), POLLIN, 0};
      ::poll(&wait, 1, 20);
      alignas(8) char bytes[8192];
      size_t length = 0;
      Fd descriptor;
      switch (ring::ReceivePacket(peer_.get(), bytes, sizeof bytes, &length, &descriptor)) {
        case ring::PacketStatus::kNothing:
          continue;
        case ring::PacketStatus::kOk:
          break;
        default:
          return false;
      }
      ring::MessageHeader header;
      std::memcpy(&header, bytes, sizeof header);
      const size_t whole = type == ring::MessageType::kState ? StateBytes() : sizeof(Message);
      if (length != whole || header.type != type) continue;
      std::memcpy(static_cast<void*>(out), bytes, whole);
      if (descriptor.ok()) offered = std::move(descriptor);
      return true;
    }
    return false;
  }

  // Size of a State message in this daemon's layout.
  size_t StateBytes() const {
    return layout_minor == 0   ? ring::kStateBytes_1_0
           : layout_minor <= 2 ? ring::kStateBytes_1_1
                               : sizeof(ring::State);
  }

  Fd listener_;
  Fd peer_;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_TESTS_ABI_SUPPORT_FAKE_DAEMON_H_
