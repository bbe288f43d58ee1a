// The HTTP port of a program for its operators: /metrics for Prometheus, /healthz for a supervisor that
// restarts dead programs, and further paths of the program.
#ifndef LOCKSTEP_BASE_METRICS_ENDPOINT_H_
#define LOCKSTEP_BASE_METRICS_ENDPOINT_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/http/http_server.h"
#include "base/metrics/page.h"
#include "base/rpc/listener.h"

namespace lockstep::metrics {

// The program's side. The endpoint's thread calls it, one call at a time.
struct EndpointSource {
  // Adds the program's metric families. An error is answered with 503 and its text.
  std::function<absl::Status(Page& page)> fill;
  // Returns one line. An error is answered with 503 and its text.
  std::function<absl::StatusOr<std::string>()> health;
  // Answers every other path; null: there are no other paths.
  std::function<HttpResponse(const HttpRequest& request)> others;
};

// Checks whether an endpoint may be opened at that address. Start and the check of the settings apply the
// same rule. `flag` is the flag with the address, for messages.
enum class CallersProve : uint8_t { kNothing, kThemselves };
absl::Status MayOpen(const std::string& address, const std::string& flag, CallersProve proofs);

class Endpoint {
 public:
  // `prefix` begins the names of the program's own families, for example "lockstep_daemon". Start returns
  // kFailedPrecondition without a token, because every user of the machine can reach a TCP port, on loopback
  // too.
  static absl::StatusOr<std::unique_ptr<Endpoint>> Start(HttpServerOptions options, std::string prefix,
                                                         EndpointSource source);
  // If a call of the source is in progress, waits for its end.
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
  // It must be the last member, because its thread uses the others.
  std::unique_ptr<HttpServer> server_;
};

}  // namespace lockstep::metrics

#endif  // LOCKSTEP_BASE_METRICS_ENDPOINT_H_
