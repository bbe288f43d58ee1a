// What a program shows to those who operate it, at one port: /metrics for Prometheus, /healthz for whoever
// restarts what is dead, and what the program adds.
#ifndef LOCKSTEP_COMMON_METRICS_ENDPOINT_H_
#define LOCKSTEP_COMMON_METRICS_ENDPOINT_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/http/http_server.h"
#include "base/metrics/page.h"
#include "base/rpc/server.h"

namespace lockstep::metrics {

// The program's side. Called on the endpoint's thread, one call at a time.
struct EndpointSource {
  // Adds the program's families. An error is answered with 503 and its text.
  std::function<absl::Status(Page& page)> fill;
  // One line. An error is answered with 503 and its text.
  std::function<absl::StatusOr<std::string>()> health;
  // Every other path; null: there is none.
  std::function<HttpResponse(const HttpRequest& request)> others;
};

// Whether an endpoint may be opened at that address: what Start holds to, and settings are checked by. `flag`
// named it.
absl::Status MayOpen(const std::string& address, const std::string& flag, rpc::HasToken token);

class Endpoint {
 public:
  // `prefix`: of the program's own families, as in "lockstep_daemon". kFailedPrecondition without a token: a
  // TCP port, on loopback too, is open to every user of the machine.
  static absl::StatusOr<std::unique_ptr<Endpoint>> Start(HttpServerOptions options, std::string prefix,
                                                         EndpointSource source);
  // Waits for the call of the source that runs.
  ~Endpoint() = default;

  const std::string& address() const { return server_->address(); }

 private:
  Endpoint(std::string prefix, EndpointSource source)
      : prefix_(std::move(prefix)), source_(std::move(source)) {}
  HttpResponse Answer(const HttpRequest& request, const HttpCounts& so_far) const;
  HttpResponse AnswerMetrics(const HttpCounts& so_far) const;
  void AddHttpCounts(const HttpCounts& counts, Page& page) const;

  const std::string prefix_;
  const EndpointSource source_;
  // Last: its thread calls into the rest.
  std::unique_ptr<HttpServer> server_;
};

}  // namespace lockstep::metrics

#endif  // LOCKSTEP_COMMON_METRICS_ENDPOINT_H_
