#include "aggregator/site/site.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "aggregator/site/live_rows.h"

namespace lockstep::aggregator {
namespace {

constexpr int kForbidden = 403, kNotFound = 404;
// Limit for reading new reports in one request, because the port's thread serves no other request meanwhile.
constexpr Nanos kMaxReadTime = Nanos::Millis(100);
constexpr std::string_view kApi = "/api/index.json", kCaptures = "/captures/";

// The report loads nothing, cannot be framed, and has no origin. Even if names in a report inject code into
// its page, the code cannot reach the session.
constexpr char kReportPolicy[] = "sandbox allow-scripts; frame-ancestors 'none'";
constexpr char kPagePolicy[] = "frame-ancestors 'none'";  // the page itself contains the rest
constexpr char kDataPolicy[] = "default-src 'none'; sandbox; frame-ancestors 'none'";

struct FileType {
  std::string_view name;
  const char* content_type;
  const char* policy;
};
constexpr FileType kTypes[] = {
    {"report.html", "text/html; charset=utf-8", kReportPolicy},
    {"report.json", "application/json", kDataPolicy},
    {"report.txt", "text/plain; charset=utf-8", kDataPolicy},
};
static_assert(std::size(kTypes) == std::size(KeptCaptures::kFiles));

HttpResponse Refused(int status, const char* text) {
  HttpResponse response;
  response.status = status;
  response.body = text;
  response.headers.emplace_back("Content-Security-Policy", kDataPolicy);
  return response;
}

// Removes the port and the brackets from a Host header.
std::string_view HostOf(std::string_view header) {
  if (!header.empty() && header.front() == '[') {
    const size_t end = header.find(']');
    return end == std::string_view::npos ? std::string_view() : header.substr(1, end - 1);
  }
  return header.substr(0, header.find(':'));
}

}  // namespace

bool IsLoopbackHost(std::string_view host) {
  if (host == "localhost" || host == "::1") return true;
  const bool digits =
      std::all_of(host.begin(), host.end(), [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
  return digits && host.substr(0, 4) == "127.";
}

Site::Site(SiteOptions options, const aggregator::Hub& hub, SignIn sign_in, AuditLog& audit,
           std::function<MonoTime()> now)
    : options_(std::move(options)),
      hub_(hub),
      sign_in_(std::move(sign_in)),
      audit_(audit),
      kept_(hub.captures().folder(), std::move(now)) {}

bool Site::Admits(const HttpRequest& request) const {
  return request.path == "/" || sign_in_.Inside(request).has_value();
}

HttpResponse Site::Answer(const HttpRequest& request) {
  HttpResponse response;
  if (options_.port == SiteOptions::Port::kLoopback && !IsLoopbackHost(HostOf(request.host))) {
    response = Refused(kForbidden,
                       "this port answers only requests for 127.0.0.1 and localhost; a proxy must send one "
                       "of them as Host\n");
  } else {
    response = Find(request);
  }
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  response.headers.emplace_back("X-Frame-Options", "DENY");
  response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  return response;
}

HttpResponse Site::Find(const HttpRequest& request) {
  if (request.path == "/session") {
    audit_.Note("session", {"token", std::nullopt, request.peer}, "ok", {});
    return sign_in_.Grant();
  }
  HttpResponse response;
  if (request.path == "/") {
    response.content_type = "text/html; charset=utf-8";
    response.body = IndexPage();
    response.headers.emplace_back("Content-Security-Policy", kPagePolicy);
    return response;
  }
  const std::string_view path = sign_in_.Inside(request).value_or(request.path);
  if (path == kApi) {
    response.content_type = "application/json";
    response.body = IndexToJson(MakeIndex());
    response.headers.emplace_back("Content-Security-Policy", kDataPolicy);
    return response;
  }
  if (path.substr(0, kCaptures.size()) == kCaptures)
    return CaptureFile(request, path.substr(kCaptures.size()));
  return Refused(kNotFound, "there is no such page; the index is at /\n");
}

HttpResponse Site::CaptureFile(const HttpRequest& request, std::string_view below) {
  const size_t slash = below.find('/');
  const std::string id(below.substr(0, slash));
  const std::string_view name =
      slash == std::string_view::npos ? std::string_view() : below.substr(slash + 1);
  const auto type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const FileType& t) { return t.name == name; });
  HttpResponse response;
  // The capture may be requested before the first index.
  if (kept_.rows().count(id) == 0) Refresh();
  if (type != std::end(kTypes)) response.file = kept_.Open(id, type->name);
  if (!response.file.ok())
    return Refused(
        kNotFound,
        "the file does not exist: the capture has none, still runs, or retention has removed it\n");
  // Logged before any byte is sent.
  const char* by = sign_in_.Inside(request) ? "session" : "token";
  audit_.Note("read", {by, std::nullopt, request.peer}, "ok",
              {{"capture", id}, {"file", std::string(type->name)}});
  response.content_type = type->content_type;
  response.headers.emplace_back("Content-Security-Policy", type->policy);
  return response;
}

std::vector<aggregator::RunningCapture> Site::Refresh() {
  // Read before the folder, so that a capture that ends meanwhile is shown once, as running.
  std::vector<aggregator::RunningCapture> running = hub_.captures().Running();
  std::set<std::string> ids;
  for (const aggregator::RunningCapture& capture : running) ids.insert(capture.status.capture());
  kept_.Refresh(ids, kMaxReadTime);
  return running;
}

Index Site::MakeIndex() {
  Index index;
  index.program = options_.program;
  index.listen = options_.listen;
  const v1::StatusReply status = hub_.Status("", aggregator::Caller::All());
  index.daemons = static_cast<uint64_t>(status.daemons_size());
  index.jobs = JobRows(status, hub_.daemons().SeenJobs());
  for (const aggregator::RunningCapture& capture : Refresh()) index.captures.push_back(RunningRow(capture));
  index.unread = kept_.unread();
  for (const auto& [id, row] : kept_.rows()) index.captures.push_back(row);
  std::sort(index.captures.begin(), index.captures.end(),
            [](const CaptureRow& a, const CaptureRow& b) { return a.id > b.id; });
  return index;
}

}  // namespace lockstep::aggregator
