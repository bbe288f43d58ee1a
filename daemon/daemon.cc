#include "daemon/daemon.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/log/clean_text.h"
#include "base/rpc/address.h"
#include "base/rpc/channel.h"
#include "base/rpc/status_macros.h"

namespace lockstep::daemon {
namespace {

uint64_t RandomNumber() {
  uint64_t number = 0;
  // Blocks only before the machine has its first entropy; then it always gives 8 bytes.
  [[maybe_unused]] const ssize_t n = getrandom(&number, sizeof(number), 0);
  return number | 1;
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Create(const Options& options, const Clock& clock,
                                                       const ProcessTable& processes, Log& log) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<EventLoop> loop, EventLoop::Create(clock));
  std::unique_ptr<LineSink> audit_lines;
  if (!options.audit_file.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(audit_lines, LineFile::Open(options.audit_file));
  }
  std::unique_ptr<Daemon> daemon(
      new Daemon(options, clock, processes, log, std::move(loop), std::move(audit_lines)));
  LOCKSTEP_RETURN_IF_ERROR(daemon->OpenSockets(processes));
  LOCKSTEP_RETURN_IF_ERROR(daemon->AddConfiguredAggregators());
  LOCKSTEP_RETURN_IF_ERROR(daemon->OpenMetrics());
  return daemon;
}

Daemon::Daemon(Options options, const Clock& clock, const ProcessTable& processes, Log& log,
               std::unique_ptr<EventLoop> loop, std::unique_ptr<LineSink> audit_lines)
    : options_(std::move(options)),
      clock_(clock),
      log_(log),
      audit_({.program = kDaemonVersion,
              .session = RandomNumber(),
              .user_name = &SystemUserName,
              .log = [&log](LogLevel level, const char* event,
                            std::initializer_list<LogField> fields) { log.Write(level, event, fields); }},
             std::move(audit_lines), clock),
      loop_(std::move(loop)),
      node_id_(CleanText(options_.node_id.empty() ? ReadBootId() : options_.node_id, 256)),
      host_name_(CleanText(options_.node_name.empty() ? ReadHostName() : options_.node_name, 256)),
      owner_(geteuid()),
      jobs_(processes),
      captures_(clock, *this),
      last_active_(clock.Monotonic()),
      kineto_captures_(clock, *this),
      drainer_(std::make_unique<Drainer>(clock)),
      python_profiles_(*loop_, clock) {}

Daemon::~Daemon() {
  endpoint_.reset();
  // The uplinks first: their threads call into all of this.
  links_.clear();
  dyno_.reset();
  kineto_processes_.reset();
  kineto_server_.reset();
  kineto_files_.reset();
  drainer_.reset();
  control_.reset();
  clients_.reset();
}

absl::Status Daemon::OpenSockets(const ProcessTable& processes) {
  const std::string folder = FolderOf(options_.socket);
  LOCKSTEP_RETURN_IF_ERROR(PrepareSocketFolder(folder));
  LOCKSTEP_ASSIGN_OR_RETURN(lock_, LockFile(options_.socket + ".lock"));
  // First: who finds the other sockets must find this one too.
  LOCKSTEP_RETURN_IF_ERROR(OpenKineto(processes));
  // Root's sockets are for everybody: what each may do follows from who the kernel says they are.
  const mode_t mode = owner_ == 0 ? 0666 : 0600;
  LOCKSTEP_ASSIGN_OR_RETURN(ListeningSocket control,
                            ListeningSocket::Open(folder + "/control.sock", SOCK_STREAM, mode));
  LOCKSTEP_ASSIGN_OR_RETURN(ListeningSocket clients,
                            ListeningSocket::Open(options_.socket, SOCK_SEQPACKET, mode));

  ControlHandler& handler = *this;
  ControlServerOptions control_options;
  control_options.owner = owner_;
  control_ = std::make_unique<ControlServer>(control_options, std::move(control), *loop_, handler, log_);
  LOCKSTEP_RETURN_IF_ERROR(control_->Start());

  ClientEvents& events = *this;
  ClientServerOptions client_options;
  client_options.owner = owner_;
  client_options.segment.main_ring_bytes = options_.ring_bytes;
  client_options.segment.thread_ring_bytes = options_.thread_ring_bytes;
  clients_ = std::make_unique<ClientServer>(client_options, std::move(clients), *loop_, processes, jobs_,
                                            registry_, visits_, events, log_);
  LOCKSTEP_RETURN_IF_ERROR(clients_->Start());
  log_.Info("listening", {{"socket", options_.socket}, {"node", node_id_}, {"pid", getpid()}});
  return absl::OkStatus();
}

UplinkOptions Daemon::MakeUplinkOptions(const std::string& name) const {
  UplinkOptions options;
  options.id = next_uplink_;
  options.name = name;
  options.node_id = node_id_;
  options.host_name = host_name_;
  options.version = kDaemonVersion;
  options.session = RandomNumber();
  options.spool_limit_bytes = options_.spool_bytes;
  return options;
}

absl::StatusOr<rpc::Token> Daemon::LoadToken() const {
  return options_.token_file.empty() ? rpc::Token() : rpc::Token::Load(options_.token_file);
}

absl::Status Daemon::AddConfiguredAggregators() {
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Token token, LoadToken());
  for (const std::string& address : options_.aggregators) {
    LOCKSTEP_RETURN_IF_ERROR(rpc::Address::Parse(address).status());
    UplinkOptions options = MakeUplinkOptions(address);
    options.token = token;
    options.connect = [address](const std::string& redirect) {
      return rpc::Connect(redirect.empty() ? address : redirect);
    };
    Link& link = AddLink(std::move(options), Scope::All());
    link.who = {"aggregator", std::nullopt, address};
    link.uplink->Start();
  }
  return absl::OkStatus();
}

Daemon::Link& Daemon::AddLink(UplinkOptions options, Scope scope) {
  Link& link = links_[next_uplink_++];
  link.scope = scope;
  UplinkEvents& events = *this;
  link.uplink = std::make_unique<Uplink>(std::move(options),
                                         std::make_shared<Spool>(options_.spool_bytes, clock_, losses_),
                                         clock_, events, log_);
  link.uplink->SetRanks(registry_.Ranks(scope));
  return link;
}

void Daemon::Run() {
  if (options_.idle_exit) CheckIdle();
  loop_->Run();
}

// ---- Lifetime

void Daemon::CheckIdle() {
  const MonoTime now = clock_.Monotonic();
  const bool dialled =
      std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link.second.dialled; });
  const bool kineto = kineto_processes_ != nullptr && kineto_processes_->ranks() > 0;
  if (clients_->connections() > 0 || kineto || control_->calls() > 0 || dialled || captures_.Busy())
    last_active_ = now;
  if (now - last_active_ >= *options_.idle_exit && Told().AnyLives(geteuid())) last_active_ = now;
  if (now - last_active_ >= *options_.idle_exit) {
    log_.Info("idle", {{"seconds", options_.idle_exit->seconds()}});
    return BeginStop();
  }
  const Nanos check = std::clamp(*options_.idle_exit / 10, Nanos::Millis(10), Nanos::Seconds(1));
  loop_->After(check, [this] {
    if (!stopping_) CheckIdle();
  });
}

void Daemon::Stop() {
  loop_->Post([this] { BeginStop(); });
}

void Daemon::BeginStop() {
  if (stopping_) return FinishStop();
  stopping_ = true;
  log_.Info("stopping");
  captures_.StopAll();
  CapturesChanged();  // may be all that was to wait for
  loop_->After(kStopWait, [this] { FinishStop(); });
}

void Daemon::FinishStop() {
  if (finished_) return;
  finished_ = true;
  // What is left of the drains ends here; the spools are sent as far as the aggregators take them.
  const MonoTime until = clock_.Monotonic() + kFlushWait;
  for (auto& [id, link] : links_) link.uplink->Flush(std::max(until - clock_.Monotonic(), Nanos()));
  log_.Info("stopped");
  loop_->Stop();
}

// ---- Captures

void Daemon::CapturesChanged() {
  for (auto& [id, link] : links_) {
    link.uplink->SetClockPace(captures_.Busy(id) ? ClockPace::kCapture : ClockPace::kIdle);
  }
  if (capture_timer_) loop_->Cancel(*capture_timer_);
  capture_timer_.reset();
  if (const std::optional<MonoTime> next = captures_.NextDeadline()) {
    capture_timer_ = loop_->After(std::max(*next - clock_.Monotonic(), Nanos()), [this] {
      capture_timer_.reset();
      captures_.Tick();
      CapturesChanged();
    });
  }
  KinetoChanged();
  if (stopping_ && !captures_.Busy()) loop_->Post([this] { FinishStop(); });
}

bool Daemon::SendToClient(const ProcessId& process, const ring::Arm& message) {
  return ByKineto(process) ? kineto_captures_.OnArm(process, message) : clients_->Send(process, message);
}
bool Daemon::SendToClient(const ProcessId& process, const ring::Start& message) {
  return ByKineto(process) ? kineto_captures_.OnStart(process, message) : clients_->Send(process, message);
}
bool Daemon::SendToClient(const ProcessId& process, const ring::Stop& message) {
  return ByKineto(process) ? kineto_captures_.OnStop(process, message) : clients_->Send(process, message);
}

bool Daemon::MayCapture(UplinkId uplink, const ProcessId& process) {
  const auto link = links_.find(uplink);
  const RegisteredProcess* registered = registry_.Find(process);
  return link != links_.end() && registered != nullptr && link->second.scope.Allows(*registered);
}

bool Daemon::KnowsTriggers(const ProcessId& process) {
  constexpr uint32_t kTriggersSince = 1;
  const RegisteredProcess* registered = registry_.Find(process);
  return registered != nullptr && registered->layout_minor >= kTriggersSince;
}

uint64_t Daemon::BeginDrain(UplinkId uplink, const ProcessId& process, const std::string& capture) {
  if (ByKineto(process)) {
    kineto_targets_[process] = {capture, links_.at(uplink).uplink->spool()};
    return 0;
  }
  python_profiles_.Expect(process, capture, links_.at(uplink).uplink->spool());
  const std::shared_ptr<DaemonSegment> segment = clients_->SegmentOf(process);
  return drainer_->Begin(process, segment, segment->incarnation(), capture,
                         links_.at(uplink).uplink->spool());
}

void Daemon::EndDrain(const ProcessId& process, uint64_t number, const HostInterval& window) {
  if (ByKineto(process)) return EndKineto(process, number, window);
  drainer_->End(process, {window, [this, process, number](uint64_t records, std::function<void()> add_end) {
                            loop_->Post([this, process, number, records, add_end = std::move(add_end)] {
                              log_.Info("capture_drained", {{"pid", process.pid}, {"records", records}});
                              python_profiles_.Send(process, number,
                                                    [this, process, number, records, add_end] {
                                                      // Before anybody hears of it: the answer may be to
                                                      // capture the process again.
                                                      captures_.OnDrained(process, number, records);
                                                      add_end();
                                                      CapturesChanged();
                                                    });
                            });
                          }});
}

void Daemon::RestartDrain(const ProcessId& process) {
  if (!ByKineto(process)) drainer_->Restart(process);
}

void Daemon::AbandonDrain(UplinkId uplink, const ProcessId& process, const std::string& capture) {
  if (ByKineto(process)) {
    kineto_captures_.Forget(process);
    kineto_targets_.erase(process);
  } else {
    drainer_->Abandon(process);
    python_profiles_.Forget(process);
  }
  const auto link = links_.find(uplink);
  if (link != links_.end()) link->second.uplink->spool()->Forget(capture);
}

void Daemon::SendEnd(UplinkId uplink, const ProcessId& process, const std::string& capture) {
  v1::CaptureEnd end;
  end.set_capture(capture);
  ToProto(process, end.mutable_process());
  const auto link = links_.find(uplink);
  if (link != links_.end()) link->second.uplink->spool()->AddEnd(std::move(end));
}

void Daemon::SendStates(UplinkId uplink, v1::RankStates states) {
  for (const v1::RankState& state : states.states()) {
    if (state.text().empty()) continue;
    log_.Warning("rank_state", {{"capture", states.capture()},
                                {"pid", state.process().pid()},
                                {"state", v1::RankState::State_Name(state.state())},
                                {"text", state.text()}});
  }
  const auto link = links_.find(uplink);
  if (link != links_.end()) link->second.uplink->SendStates(std::move(states));
}

HostTime Daemon::ToHost(UplinkId uplink, JobTime t) {
  const auto link = links_.find(uplink);
  return link == links_.end() ? HostTime(t.ns()) : link->second.uplink->Offset().ToHost(t);
}

// ---- Clients

void Daemon::OnRanksChanged() {
  // A job's ranks come together: one list for all of them.
  if (ranks_pending_) return;
  ranks_pending_ = true;
  loop_->After(kRanksPause, [this] {
    ranks_pending_ = false;
    SendRanks();
  });
}

void Daemon::SendRanks() {
  last_active_ = clock_.Monotonic();
  for (auto& [id, link] : links_) link.uplink->SetRanks(registry_.Ranks(link.scope));
}

void Daemon::OnClientState(const ProcessId& process, const ring::State& state) {
  if (ByKineto(process)) return;  // late words of an earlier capture
  captures_.OnClientState(process, state);
  CapturesChanged();
}

void Daemon::OnClientProfile(const ProcessId& process, const ring::Profile& profile, Fd file) {
  if (!ByKineto(process)) python_profiles_.OnProfile(process, profile, std::move(file));
}

void Daemon::OnClientGone(const ProcessId& process, const std::string& why) {
  if (ByKineto(process)) return;  // its profiler goes on without the client
  captures_.OnClientGone(process, why);
  CapturesChanged();
}

// ---- Uplinks

void Daemon::OnUplinkUp(UplinkId uplink) {
  loop_->Post([this, uplink] {
    const auto link = links_.find(uplink);
    if (link == links_.end()) return;
    captures_.OnUplinkBack(uplink);
    if (auto done = std::exchange(link->second.dialled_done, nullptr)) done("");
  });
}

void Daemon::OnUplinkDown(UplinkId uplink, const absl::Status& why, bool last) {
  if (!last) return;
  loop_->Post([this, uplink, why] {
    const auto link = links_.find(uplink);
    if (link == links_.end()) return;
    if (auto done = std::exchange(link->second.dialled_done, nullptr)) done(std::string(why.message()));
    captures_.OnUplinkGone(uplink);
    gone_spools_.AddCounts(link->second.uplink->spool()->stats());
    links_.erase(link);
    CapturesChanged();
  });
}

void Daemon::OnRequest(UplinkId uplink, const v1::FromAggregator& request) {
  // An aggregator that floods is slowed down to what the main thread can do; its reader may wait, though not
  // for ever.
  for (int waits = 0; pending_requests_ > kMostPendingRequests && waits < 100; ++waits) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ++pending_requests_;
  loop_->Post([this, uplink, request] {
    --pending_requests_;
    HandleRequest(uplink, request);
  });
}

void Daemon::HandleRequest(UplinkId uplink, const v1::FromAggregator& request) {
  const auto link = links_.find(uplink);
  if (link == links_.end() || stopping_) return;
  const std::string& from = link->second.uplink->options().name;
  switch (request.message_case()) {
    case v1::FromAggregator::kArm:
      log_.Info(
          "arm",
          {{"capture", request.arm().capture()}, {"ranks", request.arm().processes_size()}, {"from", from}});
      audit_.Note("arm", link->second.who, "ok",
                  {{"capture", request.arm().capture()},
                   {"captured_ranks", request.arm().processes_size()},
                   {"sample", request.arm().sample() ? "yes" : "no"}});
      captures_.OnArm(uplink, request.arm());
      break;
    case v1::FromAggregator::kStart:
      log_.Info("start", {{"capture", request.start().capture()},
                          {"t0_ns", request.start().t0_ns()},
                          {"t1_ns", request.start().t1_ns()}});
      captures_.OnStart(uplink, request.start());
      break;
    case v1::FromAggregator::kStop:
      log_.Info("stop",
                {{"capture", request.stop().capture()}, {"abort", request.stop().abort() ? "yes" : "no"}});
      audit_.Note("stop", link->second.who, "ok", {{"capture", request.stop().capture()}});
      captures_.OnStop(uplink, request.stop());
      break;
    default:
      break;
  }
  CapturesChanged();
}

}  // namespace lockstep::daemon
