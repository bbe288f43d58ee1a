#include "aggregator/server.h"

#include <grpcpp/grpcpp.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aggregator/capture_reports.h"
#include "aggregator/captures/selection.h"
#include "aggregator/housekeeper.h"
#include "aggregator/ingest/control_service.h"
#include "aggregator/ingest/hub.h"
#include "aggregator/ingest/ingest_service.h"
#include "aggregator/live/samplers.h"
#include "aggregator/notice/alarm_command.h"
#include "aggregator/notice/alarm_policy.h"
#include "aggregator/notice/gpu_windows.h"
#include "aggregator/notice/hang_watch.h"
#include "aggregator/notice/notice_metrics.h"
#include "aggregator/notice/slowdowns.h"
#include "aggregator/reports/analyst.h"
#include "aggregator/server_metrics.h"
#include "aggregator/site/kept_captures.h"
#include "aggregator/site/sign_in.h"
#include "aggregator/site/site.h"
#include "base/clock.h"
#include "base/files/own_folder.h"
#include "base/files/read_files.h"
#include "base/log/audit_log.h"
#include "base/metrics/endpoint.h"
#include "base/random_number.h"
#include "base/rpc/address.h"
#include "base/rpc/connection_gate.h"
#include "base/rpc/server.h"
#include "base/rpc/status_macros.h"
#include "base/tls/certificate_watch.h"

namespace lockstep::aggregator {
namespace {

// A slow reader may fetch a report of several megabytes.
constexpr Nanos kAnswerTimeout = Nanos::Seconds(60);
// For the daemons' answers to one look of the watch for hangs.
constexpr Nanos kProgressWithin = Nanos::Seconds(3);

// Holds samples during their analysis, by id.
std::string SamplesFolder(const std::string& state_dir) { return state_dir + "/samples"; }

absl::Status MakeFolders(const std::string& state_dir) {
  std::error_code error;
  const bool there = std::filesystem::is_directory(state_dir, error);
  std::filesystem::create_directories(CapturesFolder(state_dir), error);
  if (error)
    return absl::PermissionDeniedError(
        absl::StrCat("cannot create ", state_dir, ": ", error.message(), "; give --state-dir"));
  if (!there && ::chmod(state_dir.c_str(), 0700) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot close ", state_dir));
  std::filesystem::create_directory(SamplesFolder(state_dir), error);
  if (error)
    return absl::PermissionDeniedError(
        absl::StrCat("cannot create ", SamplesFolder(state_dir), ": ", error.message()));
  // Removes the samples of a killed aggregator, which are no longer needed.
  for (const std::filesystem::directory_entry& entry : FolderEntries(SamplesFolder(state_dir)))
    RemoveOwnFolder(entry.path(), OwnFolder::kStoredCapture).IgnoreError();
  return absl::OkStatus();
}

bool HasTcp(const std::vector<std::string>& addresses) {
  return std::any_of(addresses.begin(), addresses.end(), [](const std::string& text) {
    const absl::StatusOr<rpc::Address> address = rpc::Address::Parse(text);
    return address.ok() && !address->is_unix();
  });
}

// Returns whether other machines can reach the HTTP port.
bool ForOthers(const std::string& http) {
  const absl::StatusOr<rpc::Address> address = rpc::Address::Parse(http);
  return address.ok() && !IsLoopbackHost(address->host());
}

rpc::GivenSettings GivenTo(const ServerOptions& options) {
  return {.tls_dir = !options.security.tls_dir.empty(),
          .token = !options.security.token.empty(),
          .munge = options.credentials != nullptr,
          .plaintext = options.security.plaintext == rpc::SecuritySettings::Plaintext::kYes};
}

class GrpcServer final : public Server {
 public:
  // `security` is null if the server has no TCP port.
  GrpcServer(ServerOptions options, std::shared_ptr<rpc::Security> security,
             std::unique_ptr<LineSink> audit_lines)
      : options_(std::move(options)),
        audit_(MakeAuditOptions(options_), std::move(audit_lines), *host_clock_),
        hub_(MakeHubOptions(options_), clock_),
        housekeeper_(
            {.folder = CapturesFolder(options_.state_dir),
             .retention = options_.retention,
             .log = options_.log,
             .surplus = [this] { return windows_.Surplus(); }},
            clock_, use_, [this](const std::string& id) { return hub_.captures().IsWriting(id); }, audit_,
            metrics_),
        security_(std::move(security)),
        certificate_(options_.security.tls_dir, options_.security.open_file, host_clock_, options_.log),
        users_(std::make_shared<SystemUsers>()),
        callers_({.token = options_.security.token,
                  .credentials = options_.credentials,
                  .security = security_,
                  .roles = std::make_shared<Roles>(options_.roles, users_, host_clock_),
                  .users = users_,
                  .clock = host_clock_},
                 gate_),
        ingest_(hub_, calls_, audit_, clock_, callers_),
        samplers_(hub_.captures(), {.read =
                                        [this](const std::string& folder, uid_t owner) {
                                          return options_.analyst->Sample({folder, owner});
                                        },
                                    .log = options_.log}),
        hangs_(hub_.daemons(), clock_, MakeHangOptions()),
        policy_(
            MakePolicyOptions(),
            [this](const v1::TraceRequest& request, const Caller& caller, const CaptureSession::Emit& emit) {
              return Trace(request, caller, emit);
            },
            [this](const Alarm& alarm, const AlarmCapture& capture) {
              alarm.kind == Alarm::Kind::kHang ? hangs_.NoteCapture(alarm.id, capture)
                                               : slowdowns_.NoteCapture(alarm.id, capture);
            },
            audit_),
        windows_(clock_, audit_, MakeWindowsOptions()),
        control_(hub_, samplers_, windows_, calls_, use_, audit_, callers_, kProgramVersion,
                 {.describe = [this](v1::AggregatorStatus& status) { Describe(status); },
                  .add_noticed = [this](const Caller& caller, const std::string& job,
                                        v1::StatusReply& reply) { AddNoticed(caller, job, reply); }},
                 [this](const std::string& folder, v1::TraceFinished& finished) {
                   AfterCapture(folder, finished);
                 }) {}
  ~GrpcServer() override { Shutdown(); }

  absl::Status Listen() {
    // The CLI's server for one capture asks for nothing else.
    if (options_.analysis == ServerAnalysis::kHere) hub_.FollowSteps(slowdowns_);
    hub_.Resume(
        [this](const std::string& folder, v1::TraceFinished& finished) { AfterCapture(folder, finished); });
    grpc::ServerBuilder builder;
    rpc::Configure(builder, {});
    gate_.Attach(builder, security_.get());
    for (const std::string& text : options_.listen) {
      LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Address address, rpc::Address::Parse(text));
      LOCKSTEP_ASSIGN_OR_RETURN(const int port, gate_.Listen(address));
      addresses_.push_back(address.is_unix() ? absl::StrCat("unix:", address.path())
                           : address.host().find(':') != std::string::npos
                               ? absl::StrCat("[", address.host(), "]:", port)
                               : absl::StrCat(address.host(), ":", port));
    }
    ingest_.Attach(builder);
    builder.RegisterService(&control_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return absl::UnavailableError("gRPC cannot start its server");
    ingest_.Start();
    certificate_.LogWarning();
    ingest_.Every(tls::CertificateWatch::kLogEvery, [this] { certificate_.LogWarning(); });
    if (options_.analysis == ServerAnalysis::kHere) {
      ingest_.Every(Nanos::Seconds(1), [this] { slowdowns_.Advance(); });
      policy_.Start();
      hangs_.Start();
      windows_.Start();
    }
    return gate_.Start();
  }

  absl::Status OpenHttp() {
    if (options_.http.empty()) return absl::OkStatus();
    metrics_.NoteStore(MeasureStore(hub_.captures().folder()));
    HttpServerOptions http;
    http.address = options_.http;
    http.flag = "--http";
    http.answer_time = kAnswerTimeout;
    http.protect = [this] {
      return rpc::TlsForHttp(options_.security, tls::Holder::kAggregator, host_clock_, options_.log);
    };
    aggregator::SiteOptions pages{.program = kProgramVersion, .listen = addresses_};
    SignIn::Port port = SignIn::Port::kPlain;
    if (ForOthers(options_.http)) {
      pages.port = aggregator::SiteOptions::Port::kAnywhere;
      if (options_.security.plaintext == rpc::SecuritySettings::Plaintext::kNo)
        port = SignIn::Port::kEncrypted;
    }
    pages.add_noticed = [this](const Caller& caller, v1::StatusReply& reply) {
      AddNoticed(caller, "", reply);
    };
    site_ = std::make_unique<aggregator::Site>(std::move(pages), hub_, callers_, SignIn(host_clock_, port),
                                               audit_, &aggregator::MonoNow);
    if (HttpHasProofs(options_.http, GivenTo(options_)))
      http.check = [this](const HttpRequest& request) { return site_->Check(request); };
    metrics::EndpointSource source;
    source.fill = [this](metrics::Page& page) {
      metrics_.AddTo(hub_, calls_, gate_.counts(), audit_.counts(), page);
      AddSlowdowns(slowdowns_.counts(), page);
      AddHangs(hangs_.counts(), page);
      AddCertificate(page);
      return absl::OkStatus();
    };
    source.health = [this]() -> absl::StatusOr<std::string> {
      return absl::StrCat("ok daemons=", hub_.daemons().counts().daemons);
    };
    source.others = [this](const HttpRequest& request) { return site_->Answer(request); };
    LOCKSTEP_ASSIGN_OR_RETURN(
        endpoint_, metrics::Endpoint::Start(std::move(http), "lockstep_aggregator", std::move(source)));
    http_address_ = std::make_shared<const std::string>(endpoint_->address());
    return absl::OkStatus();
  }

  const std::vector<std::string>& addresses() const override { return addresses_; }
  std::string http_address() const override {
    const std::shared_ptr<const std::string> address = http_address_.load();
    return address == nullptr ? "" : *address;
  }
  bool WaitForDaemon(Nanos at_most) override { return hub_.daemons().WaitForDaemon(at_most); }

  void Every(Nanos period, std::function<void()> call) override {
    ingest_.Every(period, [this, call = std::move(call)] {
      (void)hub_.daemons().counts();
      (void)hub_.captures().counts();
      call();
    });
  }

  // The CLI's server for one capture stores no captures, so it needs no housekeeping.
  void StartHousekeeping() {
    if (options_.analysis == ServerAnalysis::kHere) housekeeper_.Start();
  }

  void Shutdown() override {
    housekeeper_.Stop();
    endpoint_.reset();
    samplers_.Shutdown();
    gate_.Stop();
    // The answers that daemons give from now on are incomplete.
    hangs_.Stop();
    alarm_command_.Stop();
    hub_.Shutdown();
    options_.analyst->Shutdown();
    hub_.captures().WaitForRestored();
    hangs_.Shutdown();
    policy_.Shutdown();
    windows_.Shutdown();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
    ingest_.Stop();
    server_ = nullptr;
  }

 private:
  static AuditLog::Options MakeAuditOptions(const ServerOptions& options) {
    return {.program = kProgramVersion,
            .session = RandomNumber(),
            .user_name = &SystemUserName,
            .log = options.log};
  }

  static aggregator::HubOptions MakeHubOptions(const ServerOptions& options) {
    return {.captures = {.folder = CapturesFolder(options.state_dir),
                         .samples_folder = SamplesFolder(options.state_dir),
                         .limits = options.limits,
                         .log = options.log}};
  }

  HangWatchOptions MakeHangOptions() {
    return {.after = options_.hang_after,
            .log = options_.log,
            .on_new = [this](const Alarm& alarm) { policy_.Add(alarm); },
            .suspects = [this] { return JobsWithoutSteps(options_.hang_after / 2); },
            .look =
                [this](const v1::ProgressRequest& request) {
                  return std::make_unique<v1::ProgressReply>(
                      hub_.Progress(request, Caller::All(), kProgressWithin));
                }};
  }
  enum class RankNumbers : uint8_t { kKnown, kAny };
  // Returns the jobs with processes, of which at least one has a number of that kind.
  std::set<JobKey> RunningJobs(RankNumbers numbers) const {
    std::set<JobKey> jobs;
    for (const SeenRank& seen : hub_.daemons().Ranks()) {
      if (numbers == RankNumbers::kAny || seen.rank.rank() >= 0)
        jobs.insert({seen.rank.job(), seen.rank.uid()});
    }
    return jobs;
  }
  // Returns the running jobs in which no step has ended within this time.
  std::set<JobKey> JobsWithoutSteps(Nanos time) const {
    std::set<JobKey> jobs = RunningJobs(RankNumbers::kKnown);
    for (const JobKey& stepping : slowdowns_.SteppedWithin(time)) jobs.erase(stepping);
    return jobs;
  }

  void AddNoticed(const Caller& caller, const std::string& job, v1::StatusReply& reply) const {
    slowdowns_.AddTo(reply, job, caller);
    hangs_.AddTo(reply, job, caller);
    windows_.AddTo(reply, job, caller);
  }

  v1::TraceFinished Trace(const v1::TraceRequest& request, const Caller& caller,
                          const CaptureSession::Emit& emit) {
    return hub_.captures().Trace(
        request, caller, emit,
        [this](const std::string& folder, v1::TraceFinished& finished) { AfterCapture(folder, finished); });
  }

  GpuWindowsOptions MakeWindowsOptions() {
    return {
        .most_kept = options_.retention.captures / 2,
        .now = &MonoNow,
        .log = options_.log,
        .trace = [this](const v1::TraceRequest& request, const Caller& caller,
                        const CaptureSession::Emit& emit) { return Trace(request, caller, emit); },
        .resolve = [this](const std::string& job, const Caller& caller) { return JobToRecord(job, caller); },
        .named = [this](const std::string& job) { return hub_.daemons().JobsNamed(job); },
        .running = [this] { return RunningJobs(RankNumbers::kAny); },
        .tidy = [this] { housekeeper_.Tidy(); },
        .stored =
            [this](const std::string& capture) {
              std::error_code error;
              return std::filesystem::exists(hub_.captures().folder() + "/" + capture, error);
            }};
  }
  absl::StatusOr<JobKey> JobToRecord(const std::string& job, const Caller& caller) const {
    v1::TraceRequest request;
    request.set_job(job);
    LOCKSTEP_ASSIGN_OR_RETURN(const Selection selection, hub_.captures().Resolve(request, caller));
    LOCKSTEP_RETURN_IF_ERROR(
        caller.CheckCapture(absl::StrCat("job ", selection.job), {selection.job, selection.uid}));
    return JobKey{selection.job, selection.uid};
  }

  AlarmPolicyOptions MakePolicyOptions() {
    AlarmPolicyOptions policy{.captures_per_hour = options_.alarm_captures,
                              .steps = options_.alarm_steps,
                              .now = &MonoNow,
                              .log = options_.log};
    if (!options_.alarm_command.empty()) {
      policy.command = [this](const Alarm& alarm, const AlarmCapture& capture) {
        alarm_command_.Run(alarm, capture);
      };
    }
    return policy;
  }

  void AddCertificate(metrics::Page& page) const {
    const auto certificate = page.Gauge("lockstep_aggregator_certificate_end_timestamp_seconds",
                                        "End of the validity of this program's certificate.");
    if (const std::optional<HostTime> end = certificate_.End()) certificate.Seconds(Nanos(end->ns()));
  }

  void Describe(v1::AggregatorStatus& status) const {
    for (const std::string& address : addresses_) status.add_listen(address);
    status.set_token(!options_.security.token.empty());
    if (security_ != nullptr) status.set_protection(rpc::ProtectionName(security_->kind()));
    status.set_munge(options_.credentials != nullptr);
    status.set_http(http_address());
    std::error_code error;
    const std::filesystem::space_info space = std::filesystem::space(options_.state_dir, error);
    if (!error) {
      status.set_state_free_bytes(space.available);
      status.set_state_total_bytes(space.capacity);
    }
    const StoreUse store = metrics_.store();
    status.set_store_captures(store.captures);
    status.set_store_bytes(store.bytes);
    status.set_keep_captures(options_.retention.captures);
    status.set_keep_bytes(options_.retention.bytes);
    status.set_keep_age_ns(options_.retention.age.value_or(Nanos()).ns());
    status.set_audit(!options_.audit_file.empty());
    status.set_audit_lines_failed(audit_.counts().failed);
  }

  void AfterCapture(const std::string& folder, v1::TraceFinished& finished) {
    if (options_.analysis != ServerAnalysis::kHere) return;
    if (finished.t0_ns() != 0) reports_.Make(folder, finished);
    housekeeper_.Tidy();
    // libc keeps the memory of a large capture's records otherwise.
    ::malloc_trim(0);
  }

  const ServerOptions options_;
  const aggregator::SystemJobClock clock_;
  const std::shared_ptr<const Clock> host_clock_ = std::make_shared<SystemClock>();
  AuditLog audit_;
  aggregator::Hub hub_;
  Slowdowns slowdowns_{
      hub_.daemons(), clock_, {.now = &MonoNow, .log = options_.log, .on_new = [this](const Alarm& alarm) {
                                 policy_.Add(alarm);
                               }}};
  aggregator::RpcCounts calls_;
  aggregator::CaptureUse use_;
  ServerMetrics metrics_;
  CaptureReports reports_{
      *options_.analyst, use_, metrics_, clock_, options_.http.empty() ? WritesPage::kNo : WritesPage::kYes,
      options_.log};
  Housekeeper housekeeper_;
  rpc::ConnectionGate gate_;
  const std::shared_ptr<rpc::Security> security_;
  const tls::CertificateWatch certificate_;
  const std::shared_ptr<const UserDirectory> users_;
  aggregator::Callers callers_;
  aggregator::IngestService ingest_;
  aggregator::Samplers samplers_;
  HangWatch hangs_;
  AlarmCommand alarm_command_{options_.alarm_command, options_.log};
  AlarmPolicy policy_;
  GpuWindows windows_;
  aggregator::ControlService control_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> addresses_;
  // Null if HTTP is off. Calls of gRPC read it while HTTP starts and ends.
  std::atomic<std::shared_ptr<const std::string>> http_address_;
  // Null if HTTP is off, like endpoint_.
  std::unique_ptr<aggregator::Site> site_;
  // Declared last, because its thread calls the other members.
  std::unique_ptr<metrics::Endpoint> endpoint_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  if (!options.alarm_command.empty()) LOCKSTEP_RETURN_IF_ERROR(CheckAlarmCommand(options.alarm_command));
  LOCKSTEP_RETURN_IF_ERROR(MakeFolders(options.state_dir));
  std::unique_ptr<LineSink> audit_lines;
  if (!options.audit_file.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(audit_lines, OpenAuditFile(options.audit_file, options.audit_copy,
                                                         "lockstep-aggregator", options.log));
  }
  std::shared_ptr<rpc::Security> security;
  if (HasTcp(options.listen) || ForOthers(options.http)) {
    LOCKSTEP_RETURN_IF_ERROR(rpc::MayListen(GivenTo(options)));
    LOCKSTEP_ASSIGN_OR_RETURN(
        security, rpc::Security::ForServer(options.security, std::make_shared<SystemClock>(), options.log));
  }
  auto server = std::make_unique<GrpcServer>(std::move(options), std::move(security), std::move(audit_lines));
  LOCKSTEP_RETURN_IF_ERROR(server->Listen());
  LOCKSTEP_RETURN_IF_ERROR(server->OpenHttp());
  server->StartHousekeeping();
  return server;
}

bool HttpHasProofs(const std::string& http, const rpc::GivenSettings& given) {
  return given.token || (given.tls_dir && !given.plaintext && ForOthers(http));
}

std::string DefaultStateDir() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && state[0] == '/') return absl::StrCat(state, "/lockstep");
  if (::geteuid() == 0) return "/var/lib/lockstep";
  const char* home = std::getenv("HOME");
  return absl::StrCat(home != nullptr ? home : "/tmp", "/.local/state/lockstep");
}

std::string CapturesFolder(const std::string& state_dir) { return state_dir + "/captures"; }

}  // namespace lockstep::aggregator
