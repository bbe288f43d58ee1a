// A fake of NCCL's RAS for tests: it listens on a port of localhost, and speaks RAS's protocol or misbehaves.
// It owns its socket and its thread, which end with it.
#ifndef LOCKSTEP_DAEMON_RAS_RAS_FAKE_H_
#define LOCKSTEP_DAEMON_RAS_RAS_FAKE_H_

#include <netinet/in.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "daemon/ras/ras_place.h"

namespace lockstep::daemon {

struct FakeRasBehaviour {
  std::string greeting = "SERVER PROTOCOL 2\n";
  bool knows_json = true;  // NCCL 2.28.7 and later
  std::string json = "{}", text = "NCCL version 2.27.7\n";
  int silent_connections = 0;  // of the first ones, as a stopped process's
  bool answers_status = true;
  bool keeps_open = false;  // it sends the answer and does not end the connection
};

class FakeRas {
 public:
  explicit FakeRas(FakeRasBehaviour behaviour) : behaviour_(std::move(behaviour)) {
    listener_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    const int bound = ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length);
    if (bound != 0) std::abort();
    ::listen(listener_.get(), 16);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeRas() {
    stopping_ = true;
    thread_.join();
  }

  uint16_t port() const { return port_; }
  RasPlace place() const {
    return {.name = "localhost:" + std::to_string(port_), .addresses = {{Loopback::Family::kIp4, port_}}};
  }
  int connections() const { return connections_; }

 private:
  bool Readable(int socket) const {
    pollfd poll = {.fd = socket, .events = POLLIN, .revents = 0};
    while (!stopping_) {
      if (::poll(&poll, 1, 20) > 0) return true;
    }
    return false;
  }

  void Serve() {
    while (Readable(listener_.get())) {
      Fd client(::accept(listener_.get(), nullptr, nullptr));
      if (!client.ok()) return;
      if (connections_++ < behaviour_.silent_connections)
        kept_.push_back(std::move(client));
      else
        Talk(std::move(client));
    }
  }

  void Talk(Fd client) {
    bool json = false;
    std::string line;
    while (ReadLine(client.get(), line)) {
      const char* text = line.c_str();
      if (::strncasecmp(text, "client protocol ", 16) == 0) {
        Send(client.get(), behaviour_.greeting);
      } else if (::strncasecmp(text, "timeout ", 8) == 0) {
        Send(client.get(), "OK\n");
      } else if (::strcasecmp(text, "set format json") == 0 && behaviour_.knows_json) {
        json = true;
        Send(client.get(), "OK\n");
      } else if (::strcasecmp(text, "verbose status") == 0) {
        if (behaviour_.answers_status) Send(client.get(), json ? behaviour_.json : behaviour_.text);
        if (behaviour_.answers_status && !behaviour_.keeps_open) return;
      } else {
        Send(client.get(), "ERROR: Unknown command " + line + "\n");
      }
    }
  }

  bool ReadLine(int client, std::string& line) const {
    line.clear();
    char c = 0;
    while (Readable(client) && ::recv(client, &c, 1, 0) == 1) {
      if (c == '\n') return true;
      line += c;
    }
    return false;
  }

  void Send(int client, std::string_view bytes) const {
    while (!bytes.empty() && !stopping_) {
      const ssize_t sent = ::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
      if (sent < 0 && errno != EAGAIN) return;
      pollfd poll = {.fd = client, .events = POLLOUT, .revents = 0};
      if (!bytes.empty()) ::poll(&poll, 1, 20);
    }
  }

  const FakeRasBehaviour behaviour_;
  Fd listener_;
  uint16_t port_ = 0;
  std::vector<Fd> kept_;
  std::atomic<int> connections_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_RAS_RAS_FAKE_H_
