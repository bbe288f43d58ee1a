// Parses the head of one GET or HEAD request: the part of HTTP that a scrape or a page needs.
#ifndef LOCKSTEP_BASE_HTTP_HTTP_REQUEST_H_
#define LOCKSTEP_BASE_HTTP_HTTP_REQUEST_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

// The server refuses a longer head. Prometheus sends about 300 bytes, a browser about 700 plus its cookies.
inline constexpr size_t kLargestRequest = 8u << 10;

struct HttpRequest {
  // 200: the request can be answered. Else the status of the refusal: 400 not HTTP, 405 neither GET nor HEAD,
  // 413 has a body, 431 too long, 505 neither HTTP/1.0 nor HTTP/1.1.
  int status = 200;
  bool head = false;  // HEAD: the response has no body
  std::string path;   // without the query; not decoded
  // Values of the headers, empty without the header.
  std::string authorization;
  std::string host;
  std::string cookie;
  // The server sets these: the client as IP:PORT, and its certificate (HttpStream::PeerChain).
  std::string peer;
  std::string certificate;
};

// Returns nullopt until the head is complete. It ignores all bytes after the head, because a connection
// serves one request. It is a pure function.
std::optional<HttpRequest> ParseHttpRequest(std::string_view received);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_HTTP_HTTP_REQUEST_H_
