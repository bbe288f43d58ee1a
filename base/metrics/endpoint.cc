#include "base/metrics/endpoint.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/metrics/process_stats.h"
#include "base/rpc/status_macros.h"

namespace lockstep::metrics {
namespace {

constexpr int kNotFound = 404, kUnavailable = 503;
// All statuses that HttpServer, this file and the program's other paths can return.
constexpr int kStatuses[] = {200, 400, 401, 403, kNotFound, 405, 413, 431, kUnavailable, 505};

HttpResponse Line(int status, absl::string_view text) {
  HttpResponse response;
  response.status = status;
  response.body = absl::StrCat(text, "\n");
  return response;
}

}  // namespace

absl::Status MayOpen(const std::string& address, const std::string& flag, CallersProve proofs) {
  if (proofs == CallersProve::kNothing) {
    return absl::FailedPreconditionError(absl::StrCat(flag, " ", address,
                                                      ": every user of the machine can reach a TCP port, so "
                                                      "it needs a token; give --token-file"));
  }
  return HttpServer::CheckAddress(address, flag);
}

absl::StatusOr<std::unique_ptr<Endpoint>> Endpoint::Start(HttpServerOptions options, std::string prefix,
                                                          EndpointSource source) {
  LOCKSTEP_RETURN_IF_ERROR(MayOpen(options.address, options.flag,
                                   options.check ? CallersProve::kThemselves : CallersProve::kNothing));
  std::unique_ptr<Endpoint> endpoint(new Endpoint(std::move(prefix), std::move(source)));
  LOCKSTEP_ASSIGN_OR_RETURN(
      endpoint->server_,
      HttpServer::Start(std::move(options),
                        [raw = endpoint.get()](const HttpRequest& request, const HttpCounts& so_far) {
                          return raw->Answer(request, so_far);
                        }));
  return endpoint;
}

HttpResponse Endpoint::Answer(const HttpRequest& request, const HttpCounts& so_far) const {
  const std::string& path = request.path;
  if (path == "/metrics") return AnswerMetrics(so_far);
  if (path == "/healthz") {
    const absl::StatusOr<std::string> health = source_.health();
    return health.ok() ? Line(200, *health) : Line(kUnavailable, health.status().message());
  }
  if (source_.others) return source_.others(request);
  return Line(kNotFound, "not found; the pages are /metrics and /healthz");
}

void Endpoint::AddHttpCounts(const HttpCounts& counts, Page& page) const {
  const std::string requests = prefix_ + "_http_requests_total";
  const auto answered =
      page.Counter(requests, "Requests answered at the metrics port before this one, by HTTP status.");
  for (const int status : kStatuses) {
    const auto it = counts.answered.find(status);
    answered.Count(it == counts.answered.end() ? 0 : it->second, {{"code", std::to_string(status)}});
  }
  const std::string dropped = prefix_ + "_http_connections_dropped_total";
  page.Counter(dropped, "Connections to the metrics port that were closed without a response.")
      .Count(counts.displaced, {{"reason", "displaced"}})
      .Count(counts.timed_out, {{"reason", "timeout"}});
}

HttpResponse Endpoint::AnswerMetrics(const HttpCounts& so_far) const {
  Page page;
  if (const absl::Status filled = source_.fill(page); !filled.ok())
    return Line(kUnavailable, filled.message());
  AddHttpCounts(so_far, page);
  AddProcessStats("/proc", page);
  HttpResponse response;
  response.content_type = kPageContentType;
  response.body = page.text();
  return response;
}

}  // namespace lockstep::metrics
