#include "aggregator/server.h"

#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aggregator/html/page.h"
#include "aggregator/ingest/control_service.h"
#include "aggregator/ingest/hub.h"
#include "aggregator/ingest/ingest_service.h"
#include "aggregator/report/report.h"
#include "aggregator/server_metrics.h"
#include "aggregator/site/sign_in.h"
#include "aggregator/site/site.h"
#include "aggregator/store/file_sink.h"
#include "aggregator/trace/readers.h"
#include "common/metrics/endpoint.h"
#include "common/rpc/address.h"
#include "common/rpc/server.h"
#include "common/rpc/status_macros.h"

namespace lockstep {
namespace {

constexpr char kVersion[] = "lockstep-aggregator " LOCKSTEP_VERSION;
// A report of megabytes to a slow reader.
constexpr Nanos kTimeToRead = Nanos::Seconds(60);

absl::Status MakeFolders(const std::string& state_dir) {
  std::error_code error;
  const bool there = std::filesystem::is_directory(state_dir, error);
  std::filesystem::create_directories(CapturesFolder(state_dir), error);
  if (error)
    return absl::PermissionDeniedError(
        absl::StrCat("cannot make ", state_dir, ": ", error.message(), "; give --state-dir"));
  if (!there && ::chmod(state_dir.c_str(), 0700) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot close ", state_dir));
  return absl::OkStatus();
}

absl::Status WriteWhole(const std::string& path, const std::string& text) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<store::ByteSink> sink, store::OpenAtomicFile(path));
  LOCKSTEP_RETURN_IF_ERROR(sink->Append(text));
  return sink->Finish();
}

enum class Page { kNo, kYes };

absl::StatusOr<report::Report> WriteReports(const std::string& folder, Page page) {
  trace::ReadOptions options;
  // The page shows the operators too.
  if (page == Page::kYes) options.host = trace::HostDetail::kFrames;
  LOCKSTEP_ASSIGN_OR_RETURN(store::Capture capture, trace::LoadCapture(folder, options));
  report::Analysis analysis = report::Analyze(capture);
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<store::ByteSink> json,
                            store::OpenAtomicFile(folder + "/report.json"));
  LOCKSTEP_RETURN_IF_ERROR(report::WriteJson(analysis.report, *json));
  LOCKSTEP_RETURN_IF_ERROR(json->Finish());
  LOCKSTEP_RETURN_IF_ERROR(
      WriteWhole(folder + "/report.txt", report::RenderText(analysis.report, {.source = analysis.report.capture.id})));
  if (page == Page::kYes) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<store::ByteSink> html, store::OpenAtomicFile(folder + "/report.html"));
    LOCKSTEP_RETURN_IF_ERROR(html::WritePage({.capture = capture, .analysis = analysis, .source = analysis.report.capture.id}, *html));
    LOCKSTEP_RETURN_IF_ERROR(html->Finish());
  }
  return std::move(analysis.report);
}

class GrpcServer final : public Server {
 public:
  explicit GrpcServer(ServerOptions options)
      : options_(std::move(options)),
        hub_(MakeHubOptions(options_), clock_),
        ingest_(hub_, calls_, clock_, options_.token),
        control_(hub_, calls_, ingest::Callers(options_.token, options_.credentials), kVersion,
                 [this](const std::string& folder, v1::TraceFinished& finished) {
                   AfterCapture(folder, finished);
                 }) {}
  ~GrpcServer() override { Shutdown(); }

  absl::Status Listen() {
    grpc::ServerBuilder builder;
    rpc::Configure(builder);
    std::vector<rpc::Address> addresses;
    std::vector<int> ports(options_.listen.size(), 0);
    for (size_t i = 0; i < options_.listen.size(); ++i) {
      LOCKSTEP_ASSIGN_OR_RETURN(rpc::Address address, rpc::Address::Parse(options_.listen[i]));
      LOCKSTEP_RETURN_IF_ERROR(rpc::Listen(builder, address, options_.token, &ports[i]));
      addresses.push_back(std::move(address));
    }
    builder.RegisterService(&ingest_);
    builder.RegisterService(&control_);
    server_ = builder.BuildAndStart();
    for (size_t i = 0; i < addresses.size(); ++i) {
      if (server_ == nullptr || (!addresses[i].is_unix() && ports[i] == 0)) {
        return absl::UnavailableError(
            absl::StrCat("cannot listen on ", addresses[i].target(),
                         ": is another program there, or is the address not this machine's?"));
      }
      addresses_.push_back(addresses[i].is_unix() ? absl::StrCat("unix:", addresses[i].path())
                           : addresses[i].host().find(':') != std::string::npos
                               ? absl::StrCat("[", addresses[i].host(), "]:", ports[i])
                               : absl::StrCat(addresses[i].host(), ":", ports[i]));
    }
    return absl::OkStatus();
  }

  absl::Status OpenHttp() {
    if (options_.http.empty()) return absl::OkStatus();
    metrics_.NoteStore(MeasureStore(hub_.options().captures_folder));
    metrics::HttpServerOptions http;
    http.address = options_.http;
    http.flag = "--http";
    http.token = options_.token;
    http.answer_time = kTimeToRead;
    LOCKSTEP_ASSIGN_OR_RETURN(site::SignIn sign_in, site::SignIn::Make());
    LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Address address, rpc::Address::Parse(options_.http));
    site::SiteOptions pages{.program = kVersion, .listen = addresses_};
    if (!site::IsLoopbackHost(address.host())) pages.port = site::SiteOptions::Port::kAnywhere;
    site_ = std::make_unique<site::Site>(std::move(pages), hub_, std::move(sign_in), &ingest::MonoNow);
    http.admit = [this](const metrics::HttpRequest& request) { return site_->Admits(request); };
    metrics::EndpointSource source;
    source.fill = [this](metrics::Page& page) {
      metrics_.AddTo(hub_, calls_, page);
      return absl::OkStatus();
    };
    source.health = [this]() -> absl::StatusOr<std::string> { return absl::StrCat("ok daemons=", hub_.stats().daemons); };
    source.others = [this](const metrics::HttpRequest& request) { return site_->Answer(request); };
    LOCKSTEP_ASSIGN_OR_RETURN(endpoint_, metrics::Endpoint::Start(std::move(http), "lockstep_aggregator", std::move(source)));
    return absl::OkStatus();
  }

  const std::vector<std::string>& addresses() const override { return addresses_; }
  std::string http_address() const override { return endpoint_ == nullptr ? "" : endpoint_->address(); }
  bool WaitForDaemon(Nanos at_most) override { return hub_.WaitForDaemon(at_most); }

  void Shutdown() override {
    endpoint_.reset();
    hub_.Shutdown();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
    server_ = nullptr;
  }

 private:
  static ingest::HubOptions MakeHubOptions(const ServerOptions& options) {
    ingest::HubOptions hub;
    hub.captures_folder = CapturesFolder(options.state_dir);
    hub.limits = options.limits;
    hub.log = options.log;
    return hub;
  }

  void AfterCapture(const std::string& folder, v1::TraceFinished& finished) {
    if (options_.analysis == ServerAnalysis::kHere && finished.t0_ns() != 0) {
      // Records are what counts; a report can be made from them again.
      const MonoTime begun = ingest::MonoNow();
      absl::StatusOr<report::Report> report = WriteReports(folder, options_.http.empty() ? Page::kNo : Page::kYes);
      if (!report.ok()) options_.log(absl::StrCat("no report in ", folder, ": ", report.status().message()));
      metrics_.NoteReport(report.ok() ? std::optional(*std::move(report)) : std::nullopt, ingest::MonoNow() - begun,
                          clock_.Now() - JobTime());
    }
    const Retired retired = Retire(hub_.options().captures_folder, options_.retention,
                                   [this](const std::string& id) { return hub_.IsWriting(id); });
    for (const std::string& name : retired.names) options_.log(absl::StrCat("capture ", name, " was removed: retention"));
    metrics_.NoteRetired(retired);
  }

  const ServerOptions options_;
  const ingest::SystemClock clock_;
  ingest::Hub hub_;
  ingest::RpcCounts calls_;
  ServerMetrics metrics_;
  ingest::IngestService ingest_;
  ingest::ControlService control_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> addresses_;
  // Null where it is off, as the next.
  std::unique_ptr<site::Site> site_;
  // Last: its thread calls into the rest.
  std::unique_ptr<metrics::Endpoint> endpoint_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  LOCKSTEP_RETURN_IF_ERROR(MakeFolders(options.state_dir));
  auto server = std::make_unique<GrpcServer>(std::move(options));
  LOCKSTEP_RETURN_IF_ERROR(server->Listen());
  LOCKSTEP_RETURN_IF_ERROR(server->OpenHttp());
  return server;
}

std::string DefaultStateDir() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && state[0] == '/') return absl::StrCat(state, "/lockstep");
  if (::geteuid() == 0) return "/var/lib/lockstep";
  const char* home = std::getenv("HOME");
  return absl::StrCat(home != nullptr ? home : "/tmp", "/.local/state/lockstep");
}

std::string CapturesFolder(const std::string& state_dir) { return state_dir + "/captures"; }

}  // namespace lockstep
