// A client of HttpServer, for tests. The test decides which bytes it sends, and when.
#ifndef LOCKSTEP_BASE_HTTP_HTTP_CLIENT_FAKE_H_
#define LOCKSTEP_BASE_HTTP_HTTP_CLIENT_FAKE_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cstdlib>
#include <string>

#include "base/fd.h"

namespace lockstep {

class FakeHttpClient {
 public:
  // `address` is 127.0.0.1:PORT.
  explicit FakeHttpClient(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(std::atoi(address.substr(address.rfind(':') + 1).c_str())));
    const timeval patience{10, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    connected_ = connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
  }
  bool connected() const { return connected_; }
  bool Send(const std::string& bytes) {
    return send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  // Returns all bytes until the server closes the connection.
  std::string Receive() {
    std::string all;
    char part[4096];
    for (ssize_t n = 0; (n = recv(fd_.get(), part, sizeof(part), 0)) > 0;)
      all.append(part, static_cast<size_t>(n));
    return all;
  }

 private:
  Fd fd_;
  bool connected_ = false;
};

// Returns the whole response, with the status line. Each header in `headers` includes its line end.
inline std::string Get(const std::string& address, const std::string& path, const std::string& headers = "") {
  FakeHttpClient client(address);
  client.Send("GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\n" + headers + "\r\n");
  return client.Receive();
}

inline std::string BodyOf(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_HTTP_HTTP_CLIENT_FAKE_H_
