// The little of HTTP that a scrape or a page needs: the head of one GET or HEAD request.
#ifndef LOCKSTEP_COMMON_METRICS_HTTP_REQUEST_H_
#define LOCKSTEP_COMMON_METRICS_HTTP_REQUEST_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::metrics {

// A head that is longer is refused. Prometheus sends some 300 bytes, a browser some 700 and its cookies.
inline constexpr size_t kLargestRequest = 8u << 10;

struct HttpRequest {
  // 200 where the request can be answered; else the status to refuse it with: 400 it is no HTTP, 405 neither
  // GET nor HEAD, 413 it has a body, 431 it is too long, 505 neither HTTP/1.0 nor HTTP/1.1.
  int status = 200;
  bool head = false;  // HEAD: the answer goes without its body
  std::string path;   // without the query; not decoded
  // The headers' values; empty where there is none.
  std::string authorization;
  std::string host;
  std::string cookie;
  std::string peer;  // who is connected, as IP:PORT; the server adds it
};

// Nothing while the head is not complete. What follows the head is not looked at: each connection answers one
// request. Pure.
std::optional<HttpRequest> ParseHttpRequest(std::string_view received);

}  // namespace lockstep::metrics

#endif  // LOCKSTEP_COMMON_METRICS_HTTP_REQUEST_H_
