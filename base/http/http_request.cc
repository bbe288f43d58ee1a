#include "base/http/http_request.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace lockstep {
namespace {

constexpr int kBadRequest = 400, kMethodNotAllowed = 405, kContentTooLarge = 413, kHeaderTooLarge = 431,
              kVersionNotSupported = 505;
constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeadEnd = "\r\n\r\n";

HttpRequest Refused(int status) {
  HttpRequest request;
  request.status = status;
  return request;
}

bool IsToken(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || kMarks.find(c) != std::string_view::npos;
  });
}

// Returns the text before the delimiter, and removes both from `text`. Without a delimiter it takes all of
// `text`.
std::string_view Cut(std::string_view& text, std::string_view delimiter) {
  const size_t at = text.find(delimiter);
  const std::string_view piece = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + delimiter.size());
  return piece;
}

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

int ParseRequestLine(std::string_view line, HttpRequest& request, std::string_view& version) {
  const std::string_view method = Cut(line, " ");
  const std::string_view target = Cut(line, " ");
  version = line;
  // HTTP allows a tab only in a header's value.
  if (!IsToken(method) || target.empty() || target[0] != '/' || target.find('\t') != std::string_view::npos)
    return kBadRequest;
  if (!absl::StartsWith(absl::string_view(version.data(), version.size()), "HTTP/")) return kBadRequest;
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return kVersionNotSupported;
  request.head = method == "HEAD";
  request.path = target.substr(0, target.find('?'));
  return request.head || method == "GET" ? request.status : kMethodNotAllowed;
}

// The headers found so far. Their values may be empty.
struct Seen {
  bool host = false, authorization = false, cookie = false;
};

int ParseHeader(std::string_view line, HttpRequest& request, Seen& seen) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) return kBadRequest;
  const std::string name = absl::AsciiStrToLower(absl::string_view(line.data(), colon));
  const std::string_view value = Trim(line.substr(colon + 1));
  for (const auto& [known, place, before] :
       {std::tuple("host", &request.host, &seen.host),
        std::tuple("authorization", &request.authorization, &seen.authorization),
        std::tuple("cookie", &request.cookie, &seen.cookie)}) {
    if (name != known) continue;
    // If a header came twice, two readers could use different values, and attackers exploit such differences.
    if (std::exchange(*before, true)) return kBadRequest;
    *place = value;
  }
  if (name == "transfer-encoding" || (name == "content-length" && value != "0")) return kContentTooLarge;
  return request.status;
}

bool HasControls(std::string_view head) {
  return std::any_of(head.begin(), head.end(), [](char c) {
    return (static_cast<unsigned char>(c) < ' ' && c != '\r' && c != '\n' && c != '\t') || c == 0x7F;
  });
}

}  // namespace

std::optional<HttpRequest> ParseHttpRequest(std::string_view received) {
  const size_t end = received.find(kHeadEnd);
  // The received bytes may end with all of kHeadEnd but its last byte. The limit does not count those bytes
  // either.
  const bool too_long = end == std::string_view::npos ? received.size() >= kLargestRequest + kHeadEnd.size()
                                                      : end > kLargestRequest;
  if (too_long) return Refused(kHeaderTooLarge);
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view head = received.substr(0, end);
  if (HasControls(head)) return Refused(kBadRequest);
  HttpRequest request;
  std::string_view version;
  const std::string_view first = Cut(head, kLineEnd);
  if (first.find_first_of(kLineEnd) != std::string_view::npos) return Refused(kBadRequest);
  if (const int status = ParseRequestLine(first, request, version); status != request.status)
    return Refused(status);
  Seen seen;
  while (!head.empty()) {
    const std::string_view line = Cut(head, kLineEnd);
    if (line.find_first_of(kLineEnd) != std::string_view::npos) return Refused(kBadRequest);
    if (const int status = ParseHeader(line, request, seen); status != request.status) return Refused(status);
  }
  if (version == "HTTP/1.1" && !seen.host) return Refused(kBadRequest);
  return request;
}

}  // namespace lockstep
