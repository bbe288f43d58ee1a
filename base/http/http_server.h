// A small HTTP/1.1 server for pages that are read every few seconds. It has one thread, and serves one GET or
// HEAD request per connection.
//
// It limits connections, bytes of a request and time of a connection. When all connections are taken, it
// closes the oldest, so that idle ones cannot block a scrape. It trusts no byte that it receives.
//
// A port that other machines can reach requires a check of its callers, and has TLS unless plaintext was
// asked for. With a check, it decides on each request, also on loopback.
#ifndef LOCKSTEP_BASE_HTTP_HTTP_SERVER_H_
#define LOCKSTEP_BASE_HTTP_HTTP_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/http/http_request.h"
#include "base/http/http_stream.h"
#include "base/rpc/security.h"
#include "base/rpc/token.h"
#include "base/time.h"

namespace lockstep {

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // besides those that every response has
  // If open, this regular file is sent after the body, from its beginning. Its length is sent before its
  // bytes, so the connection ends if the file shrinks meanwhile.
  Fd file;
};

struct HttpServerOptions {
  std::string address;             // IP:PORT, [IPv6]:PORT or localhost:PORT; port 0 takes a free one
  std::string flag = "--metrics";  // the flag with the address, for messages
  // Decides whether a request is answered. kPermissionDenied is answered with 403 and its text, other errors
  // with 401. Null: loopback only, and every request is answered. The server's thread calls it.
  std::function<absl::Status(const HttpRequest&)> check;
  // Start calls it for an address that other machines can reach (rpc::TlsForHttp). Connections over loopback
  // need no protection.
  std::function<absl::StatusOr<std::shared_ptr<tls::TlsServer>>()> protect = [] {
    return absl::StatusOr<std::shared_ptr<tls::TlsServer>>(rpc::NotProtected("an HTTP port"));
  };
  size_t most_connections = 16;
  Nanos request_time = Nanos::Seconds(5);  // from the connection to the end of the request
  Nanos answer_time = Nanos::Seconds(5);   // from there to the last byte of the response
};

// Counts since the server started.
struct HttpCounts {
  std::map<int, uint64_t> answered;  // by status
  uint64_t timed_out = 0;            // connections that exceeded their time
  uint64_t displaced = 0;            // connections closed for a newer one
};

class HttpServer {
 public:
  // The server's thread calls it for one request at a time. No other request is served meanwhile.
  using Answer = std::function<HttpResponse(const HttpRequest& request, const HttpCounts& so_far)>;

  // kInvalidArgument and kFailedPrecondition state the problem of the address and the remedy.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpServerOptions options, Answer answer);
  // Returns kInvalidArgument if Start would refuse this kind of address.
  static absl::Status CheckAddress(const std::string& address, const std::string& flag);
  // Returns the token that a request carries (`Authorization: Bearer`); empty: none.
  static std::string_view TokenOf(const HttpRequest& request);
  // Returns a check that admits the requests with that token.
  static std::function<absl::Status(const HttpRequest&)> RequireToken(rpc::Token token);
  // Waits for the running call of `answer`. No other call follows.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The address with the port that the system assigned.
  const std::string& address() const { return address_; }

 private:
  struct Connection {
    std::unique_ptr<HttpStream> stream;
    std::string peer;
    MonoTime until;
    std::string received;
    std::string answer;
    size_t sent = 0;  // bytes of `answer`
    Fd file;          // sent after `answer`
    uint64_t file_sent = 0;
    uint64_t file_left = 0;
    bool answered = false;
    bool finished = false;  // the whole response is sent; up to kMaxDiscardedBytes bytes are still read,
                            // because a close with unread bytes could lose the response
    size_t discarded_bytes = 0;
  };

  HttpServer(HttpServerOptions options, Answer answer, std::shared_ptr<tls::TlsServer> tls, Fd listener,
             Fd wakeup, std::string address);
  void Run();
  void Accept();
  // Returns null if OpenSSL has no memory.
  std::unique_ptr<HttpStream> StreamOver(Fd socket) const;
  // These three return true if the connection stays open.
  bool Turn(Connection& connection);
  bool Receive(Connection& connection);
  bool Send(Connection& connection);
  // Builds the response of the connection.
  void Respond(const HttpRequest& request, Connection& connection);
  void CloseOverdue();

  const HttpServerOptions options_;
  const Answer answer_;
  const std::shared_ptr<tls::TlsServer> tls_;  // null: none
  const Fd listener_;
  const Fd wakeup_;
  const std::string address_;
  // Only the server's thread uses these members.
  std::vector<Connection> connections_;  // oldest first
  MonoTime accept_again_;                // set when the process ran out of descriptors
  HttpCounts counts_;
  std::thread thread_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_HTTP_HTTP_SERVER_H_
