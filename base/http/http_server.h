// A small HTTP/1.1 server for pages that are read every few seconds: one thread, GET and HEAD, one request
// per connection.
//
// It bounds what a caller can take: connections, bytes of a request, time of a connection. When all
// connections are taken the oldest goes, so that idle ones cannot keep a scrape out. Every byte is somebody
// else's.
//
// A port of this machine that is not loopback is opened only with a token. With one, each request must carry
// it
// (`Authorization: Bearer`), loopback or not.
#ifndef LOCKSTEP_COMMON_METRICS_HTTP_SERVER_H_
#define LOCKSTEP_COMMON_METRICS_HTTP_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/http/http_request.h"
#include "base/rpc/token.h"
#include "base/time.h"

namespace lockstep::metrics {

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // besides those that every answer has
  // Where it is open, this regular file from its beginning follows the body. Its length is told before it is
  // read: one that shrinks meanwhile ends the connection.
  Fd file;
};

struct HttpServerOptions {
  std::string address;             // IP:PORT, [IPv6]:PORT or localhost:PORT; port 0 takes a free one
  std::string flag = "--metrics";  // that named it, for messages
  rpc::Token token;                // empty: loopback only, and nobody is asked for one
  // Lets a request in that does not carry the token; null: none. On the server's thread.
  std::function<bool(const HttpRequest&)> admit;
  // Told of each request that is answered 401. On the server's thread.
  std::function<void(const HttpRequest&)> refused = [](const HttpRequest&) {};
  size_t most_connections = 16;
  Nanos request_time = Nanos::Seconds(5);  // from the connection to the request's end
  Nanos answer_time = Nanos::Seconds(5);   // from there to the answer's last byte
};

// Since the server started.
struct HttpCounts {
  std::map<int, uint64_t> answered;  // by status
  uint64_t timed_out = 0;            // connections that took too long
  uint64_t displaced = 0;            // closed for a newer one
};

class HttpServer {
 public:
  // Called on the server's thread, one request at a time; while it runs nobody else is served.
  using Answer = std::function<HttpResponse(const HttpRequest& request, const HttpCounts& so_far)>;

  // kInvalidArgument, kFailedPrecondition: the address, with the remedy.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpServerOptions options, Answer answer);
  // kInvalidArgument: Start would not take the address for what it is.
  static absl::Status CheckAddress(const std::string& address, const std::string& flag);
  // Ends when the answer that runs has returned. No call of `answer` follows.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // With the port that it got.
  const std::string& address() const { return address_; }

 private:
  struct Connection {
    Fd fd;
    std::string peer;
    MonoTime until;
    std::string received;
    std::string answer;
    size_t sent = 0;  // of it
    Fd file;          // what follows it
    uint64_t file_left = 0;
    bool answered = false;
    bool finished = false;  // all is sent; a little of what still comes is thrown away, so that the answer is
                            // not lost with it
    size_t thrown_away = 0;
  };

  HttpServer(HttpServerOptions options, Answer answer, Fd listener, Fd wakeup, std::string address);
  void Run();
  void Accept();
  // The connection stays open.
  bool Turn(Connection& connection);
  bool Receive(Connection& connection);
  bool Send(Connection& connection);
  // Makes the connection's answer.
  void Respond(const HttpRequest& request, Connection& connection);
  bool Allowed(const HttpRequest& request) const;
  void CloseOverdue();

  const HttpServerOptions options_;
  const Answer answer_;
  const Fd listener_;
  const Fd wakeup_;
  const std::string address_;
  // The thread's.
  std::vector<Connection> connections_;  // oldest first
  MonoTime accept_again_;                // after the process ran out of descriptors
  HttpCounts counts_;
  std::thread thread_;
};

}  // namespace lockstep::metrics

#endif  // LOCKSTEP_COMMON_METRICS_HTTP_SERVER_H_
