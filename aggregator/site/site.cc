#include "aggregator/site/site.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aggregator/site/live_rows.h"
#include "base/rpc/status_macros.h"

namespace lockstep::aggregator {
namespace {

constexpr int kUnauthorized = 401, kForbidden = 403, kNotFound = 404, kUnavailable = 503;
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

HttpResponse Refused(int status, std::string text) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(text);
  response.headers.emplace_back("Content-Security-Policy", kDataPolicy);
  return response;
}

HttpResponse NoSuchFile() {
  return Refused(kNotFound,
                 "the file does not exist: the capture has none, still runs, or retention has removed it\n");
}

std::string_view TextOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

HttpProofs ProofsOf(const HttpRequest& request) {
  return {std::string(HttpServer::TokenOf(request)), request.certificate};
}

absl::Status CheckSee(const Caller& caller, const CaptureRow& row) {
  if (caller.may_see_all()) return absl::OkStatus();
  const std::string what = absl::StrCat("capture ", row.id);
  if (!row.uid) return absl::PermissionDeniedError(absl::StrCat("the owner of ", what, " is unknown"));
  return caller.CheckSee(what, {row.job, *row.uid});
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

Site::Site(SiteOptions options, const aggregator::Hub& hub, const Callers& callers, SignIn sign_in,
           AuditLog& audit, std::function<MonoTime()> now)
    : options_(std::move(options)),
      hub_(hub),
      callers_(callers),
      sign_in_(std::move(sign_in)),
      audit_(audit),
      kept_(hub.captures().folder(), std::move(now)) {}

absl::StatusOr<Site::Visit> Site::VisitOf(const HttpRequest& request) {
  const std::optional<SignIn::Inside> inside = sign_in_.Find(request);
  if (!inside) {
    LOCKSTEP_ASSIGN_OR_RETURN(Caller caller, callers_.OfHttp(ProofsOf(request), request.peer));
    return Visit{std::move(caller), request.path};
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Caller caller, callers_.OfHttp(*inside->proofs, request.peer));
  AuditCaller who = caller.who();
  who.by = "session";
  return Visit{caller.KnownAs(std::move(who)), inside->path};
}

absl::Status Site::Check(const HttpRequest& request) {
  if (request.path == "/") return absl::OkStatus();
  const absl::StatusOr<Visit> visit = VisitOf(request);
  absl::Status allowed = visit.status();
  if (visit.ok() && request.path == "/metrics" && !visit->caller.may_see_all()) {
    allowed = absl::PermissionDeniedError(
        "metrics show all users' jobs: they are for the aggregator's token, its --viewers and --admins");
  }
  if (allowed.ok()) return allowed;
  AuditCaller who;
  who.peer = request.peer;
  // Only the first part of the path: after /s/ it contains half of a session's secret.
  audit_.Refused("http", visit.ok() ? visit->caller.who() : who, TextOf(allowed),
                 {{"path", request.path.substr(0, request.path.find('/', 1))}});
  return allowed;
}

HttpResponse Site::Answer(const HttpRequest& request) {
  HttpResponse response;
  if (options_.port == SiteOptions::Port::kLoopback && !IsLoopbackHost(HostOf(request.host))) {
    constexpr char kOtherHost[] =
        "this port answers only requests for 127.0.0.1 and localhost; a proxy must send one of them as Host";
    AuditCaller who;
    who.peer = request.peer;
    audit_.Refused("http", who, kOtherHost);
    response = Refused(kForbidden, absl::StrCat(kOtherHost, "\n"));
  } else {
    response = Find(request);
  }
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  response.headers.emplace_back("X-Frame-Options", "DENY");
  response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  return response;
}

HttpResponse Site::Find(const HttpRequest& request) {
  if (request.path == "/") {
    HttpResponse response;
    response.content_type = "text/html; charset=utf-8";
    response.body = IndexPage();
    response.headers.emplace_back("Content-Security-Policy", kPagePolicy);
    return response;
  }
  const absl::StatusOr<Visit> visit = VisitOf(request);
  if (!visit.ok()) return Refused(kUnauthorized, "the proof has become invalid\n");
  const auto& [caller, path] = *visit;
  if (request.path == "/session") return BeginSession(request, caller);
  if (path == kApi) {
    HttpResponse response;
    response.content_type = "application/json";
    response.body = IndexToJson(MakeIndex(caller));
    response.headers.emplace_back("Content-Security-Policy", kDataPolicy);
    return response;
  }
  if (path.substr(0, kCaptures.size()) == kCaptures)
    return CaptureFile(caller, path.substr(kCaptures.size()));
  return Refused(kNotFound, "there is no such page; the index is at /\n");
}

HttpResponse Site::BeginSession(const HttpRequest& request, const Caller& caller) {
  absl::StatusOr<HttpResponse> response = sign_in_.Begin(ProofsOf(request));
  if (!response.ok()) return Refused(kUnavailable, "the system gives no random numbers\n");
  audit_.Note("session", caller.who(), "ok", {});
  return *std::move(response);
}

HttpResponse Site::CaptureFile(const Caller& caller, std::string_view below) {
  const size_t slash = below.find('/');
  const std::string id(below.substr(0, slash));
  const std::string_view name =
      slash == std::string_view::npos ? std::string_view() : below.substr(slash + 1);
  const auto type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const FileType& t) { return t.name == name; });
  // The capture may be requested before the first index.
  if (kept_.rows().count(id) == 0) Refresh();
  const auto row = kept_.rows().find(id);
  if (type == std::end(kTypes) || row == kept_.rows().end()) return NoSuchFile();
  if (const absl::Status allowed = CheckSee(caller, row->second); !allowed.ok()) {
    audit_.Refused("read", caller.who(), TextOf(allowed), {{"capture", id}, {"file", std::string(name)}});
    return Refused(kForbidden, absl::StrCat(allowed.message(), "\n"));
  }
  HttpResponse response;
  response.file = kept_.Open(id, type->name);
  if (!response.file.ok()) return NoSuchFile();
  // Logged before any byte is sent.
  audit_.Note("read", caller.who(), "ok", {{"capture", id}, {"file", std::string(name)}});
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

Index Site::MakeIndex(const Caller& caller) {
  Index index;
  index.program = options_.program;
  index.listen = options_.listen;
  v1::StatusReply status = hub_.Status("", caller);
  options_.add_noticed(caller, status);
  index.daemons = static_cast<uint64_t>(status.daemons_size());
  std::map<JobKey, SeenJob> seen = hub_.daemons().SeenJobs();
  std::erase_if(seen, [&](const auto& job) { return !caller.MaySee({job.first.job, job.first.uid}); });
  index.jobs = JobRows(status, seen);
  for (const RunningCapture& capture : Refresh()) {
    if (CheckSee(caller, RunningRow(capture)).ok()) index.captures.push_back(RunningRow(capture));
  }
  index.unread = kept_.unread();
  for (const auto& [id, row] : kept_.rows()) {
    if (CheckSee(caller, row).ok()) index.captures.push_back(row);
  }
  std::sort(index.captures.begin(), index.captures.end(),
            [](const CaptureRow& a, const CaptureRow& b) { return a.id > b.id; });
  return index;
}

}  // namespace lockstep::aggregator
