// DaemonMetrics serves the metrics port of lockstepd: the page (docs/formats/metrics.md lists it) and health.
//
// The port has its own thread, which asks the main thread for each page. If the main loop does not answer in
// time, the port answers with an error.
#ifndef LOCKSTEP_DAEMON_DAEMON_METRICS_H_
#define LOCKSTEP_DAEMON_DAEMON_METRICS_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/http/http_server.h"
#include "base/log/audit_log.h"
#include "base/log/log.h"
#include "base/metrics/endpoint.h"
#include "base/metrics/page.h"
#include "base/tls/certificate_watch.h"
#include "daemon/captures/captures.h"
#include "daemon/captures/client_capture_path.h"
#include "daemon/captures/kineto_capture_path.h"
#include "daemon/clients/client_server.h"
#include "daemon/loop/event_loop.h"
#include "daemon/node/registry.h"
#include "daemon/uplink/aggregator_links.h"
#include "wire/losses/loss_table.h"

namespace lockstep::daemon {

// The parts whose counts the page has. All outlive the DaemonMetrics.
struct DaemonMetricsSources {
  EventLoop& loop;
  const Registry& registry;
  const ClientServer& clients;
  const Captures& captures;
  const ClientCapturePath& client_path;
  const KinetoCapturePath& kineto_path;
  const AggregatorLinks& links;
  const losses::LossTable& losses;
  const AuditLog& audit;
  const tls::CertificateWatch& certificate;
  const Log& log;
  size_t spool_limit_bytes = 0;
};

class DaemonMetrics {
 public:
  // Opens the port. kFailedPrecondition: `http` has no token.
  static absl::StatusOr<std::unique_ptr<DaemonMetrics>> Start(HttpServerOptions http,
                                                              DaemonMetricsSources sources);
  DaemonMetrics(const DaemonMetrics&) = delete;
  DaemonMetrics& operator=(const DaemonMetrics&) = delete;

  // Returns the address of the port.
  const std::string& address() const { return endpoint_->address(); }

 private:
  explicit DaemonMetrics(DaemonMetricsSources sources) : sources_(sources) {}
  metrics::EndpointSource MakeEndpointSource();
  // These run on the main thread.
  void AddMetrics(metrics::Page& page) const;
  void AddCaptureMetrics(metrics::Page& page) const;
  void AddUplinkMetrics(metrics::Page& page) const;

  const DaemonMetricsSources sources_;
  std::unique_ptr<metrics::Endpoint> endpoint_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_DAEMON_METRICS_H_
