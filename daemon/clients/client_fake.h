// A client for tests: it speaks the handshake and writes rings, correctly or not. The daemon accepts one
// client per process, so tests that need several start the program client_fake_main.cc.
#ifndef LOCKSTEP_DAEMON_CLIENTS_CLIENT_FAKE_H_
#define LOCKSTEP_DAEMON_CLIENTS_CLIENT_FAKE_H_

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <string>

#include "base/fd.h"
#include "wire/ring/client_segment.h"
#include "wire/ring/handshake.h"
#include "wire/ring/socket_io.h"

namespace lockstep::daemon {

class FakeClient {
 public:
  FakeClient() = default;
  ~FakeClient() { segment_.Detach(); }
  FakeClient(const FakeClient&) = delete;
  FakeClient& operator=(const FakeClient&) = delete;

  bool Connect(const std::string& path) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, path.c_str(), path.size() + 1);
    socket_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    return connect(socket_.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
  }
  void Disconnect() { socket_.reset(); }
  int socket() const { return socket_.get(); }

  template <typename Message>
  static Message Make(ring::MessageType type) {
    Message message{};
    message.header = {ring::kHandshakeMagic, type, sizeof(Message)};
    return message;
  }
  static ring::Hello MakeHello(const std::string& identity) {
    auto hello = Make<ring::Hello>(ring::MessageType::kHello);
    hello.layout_major = ring::kLayoutMajor;
    hello.layout_minor = ring::kLayoutMinor;
    std::strcpy(hello.version, "fake");
    std::strcpy(hello.program, "fake_client");
    std::memcpy(hello.identity, identity.data(), std::min(identity.size(), sizeof(hello.identity)));
    return hello;
  }

  bool SendBytes(const void* bytes, size_t length, int descriptor = -1) {
    return ring::SendPacket(socket_.get(), bytes, length, descriptor) == ring::PacketStatus::kOk;
  }
  template <typename Message>
  bool Send(const Message& message, int descriptor = -1) {
    return SendBytes(&message, sizeof(message), descriptor);
  }

  enum class Got { kMessage, kNothing, kClosed };
  // Receives the next packet of any type.
  Got Receive(std::chrono::milliseconds wait) {
    pollfd poll_for{socket_.get(), POLLIN, 0};
    if (poll(&poll_for, 1, static_cast<int>(wait.count())) <= 0) return Got::kNothing;
    Fd descriptor;
    const auto status = ring::ReceivePacket(socket_.get(), packet_, sizeof(packet_), &length_, &descriptor);
    if (status == ring::PacketStatus::kNothing) return Got::kNothing;
    if (status != ring::PacketStatus::kOk) return Got::kClosed;
    if (descriptor.ok()) memfd_ = std::move(descriptor);
    return Got::kMessage;
  }
  ring::MessageType type() const {
    ring::MessageHeader header{};
    std::memcpy(&header, packet_, sizeof(header));
    return header.type;
  }
  template <typename Message>
  Message As() const {
    Message message{};
    std::memcpy(&message, packet_, sizeof(message));
    return message;
  }
  // Returns the next message if it has the type `wanted`, else nothing.
  template <typename Message>
  std::optional<Message> Expect(ring::MessageType wanted,
                                std::chrono::milliseconds wait = std::chrono::seconds(10)) {
    if (Receive(wait) != Got::kMessage || type() != wanted || length_ != sizeof(Message)) return std::nullopt;
    return As<Message>();
  }

  // Sends Hello, waits for Welcome, and maps the segment.
  bool Register(const std::string& identity) {
    if (!Send(MakeHello(identity))) return false;
    const auto welcome = Expect<ring::Welcome>(ring::MessageType::kWelcome);
    return welcome && segment_.Attach(memfd_.get(), welcome->segment_bytes) == ring::AttachError::kNone;
  }
  bool SendState(uint64_t capture, ring::ClientState state, const std::string& text = "",
                 uint64_t records = 0) {
    auto message = Make<ring::State>(ring::MessageType::kState);
    message.capture = capture;
    message.state = state;
    message.records = records;
    std::memcpy(message.text, text.data(), std::min(text.size(), sizeof(message.text) - 1));
    return Send(message);
  }

  int memfd() const { return memfd_.get(); }
  ring::ClientSegment& segment() { return segment_; }

  enum class Names { kDefine, kDefined };
  // Writes kernels that start at start_ns, start_ns + 100, … and last 50 ns. Their name is string id 1, which
  // kDefine defines. Returns the number written; the segment counts the others as lost.
  static uint64_t WriteKernels(ring::RingWriter& writer, uint64_t count, int64_t start_ns, Names names) {
    if (names == Names::kDefine) writer.DefineString(1, "kernel", 6);
    uint64_t written = 0;
    for (uint64_t i = 0; i < count; ++i) {
      auto* record = writer.New<ring::KernelRecord>();
      if (record == nullptr) continue;
      const ring::RecordHeader header = record->header;
      *record = {};
      record->header = header;
      record->start_ns = start_ns + static_cast<int64_t>(i) * 100;
      record->end_ns = record->start_ns + 50;
      record->correlation = static_cast<uint32_t>(i + 1);
      record->name = 1;
      // An incompressible value, so that many records need many bytes.
      record->dynamic_shared_bytes = static_cast<uint32_t>(((i + 1) * 0x9E3779B97F4A7C15ull) >> 32);
      ++written;
    }
    writer.Commit();
    return written;
  }

 private:
  Fd socket_;
  Fd memfd_;
  ring::ClientSegment segment_;
  alignas(8) std::byte packet_[4096] = {};
  size_t length_ = 0;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CLIENTS_CLIENT_FAKE_H_
