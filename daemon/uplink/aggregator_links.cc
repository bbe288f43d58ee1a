#include "daemon/uplink/aggregator_links.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random_number.h"
#include "base/rpc/address.h"
#include "base/rpc/channel.h"
#include "base/rpc/status_macros.h"
#include "daemon/node/socket.h"
#include "daemon/node/version.h"

namespace lockstep::daemon {

AggregatorLinks::AggregatorLinks(NodeInfo node, size_t spool_bytes, std::shared_ptr<const HostAccess> access,
                                 EventLoop& loop, const Clock& clock, Registry& registry,
                                 const DepartedRanks& departed, NodeCaptures& captures,
                                 ProgressAnswers& progress, StepWatch& steps, losses::LossTable& losses,
                                 AuditLog& audit, Log& log)
    : node_(std::move(node)),
      spool_bytes_(spool_bytes),
      access_(std::move(access)),
      loop_(loop),
      clock_(clock),
      registry_(registry),
      departed_(departed),
      captures_(captures),
      progress_(progress),
      steps_(steps),
      losses_(losses),
      audit_(audit),
      log_(log) {}

UplinkOptions AggregatorLinks::MakeUplinkOptions(const std::string& address, const rpc::Token& token) const {
  UplinkOptions options;
  options.id = next_uplink_;
  options.name = address;
  options.token = token;
  options.node_id = node_.id;
  options.host_name = node_.host_name;
  options.version = kDaemonVersion;
  options.session = RandomNumber();
  options.spool_limit_bytes = spool_bytes_;
  return options;
}

AggregatorLinks::Link& AggregatorLinks::Add(UplinkOptions options, RankFilter filter,
                                            std::shared_ptr<SpoolBudget> budget) {
  Link& link = links_[next_uplink_++];
  link.filter = filter;
  link.budget = std::move(budget);
  UplinkEvents& events = *this;
  link.uplink = std::make_unique<Uplink>(
      std::move(options), std::make_shared<Spool>(link.budget, clock_, losses_), clock_, events, log_);
  SendRanks(link);
  return link;
}

const AggregatorLinks::Link* AggregatorLinks::Find(UplinkId uplink) const {
  const auto link = links_.find(uplink);
  return link == links_.end() ? nullptr : &link->second;
}

// ---- New connections

absl::Status AggregatorLinks::AddConfigured(const std::string& address,
                                            const rpc::SecuritySettings& settings) {
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Address parsed, rpc::Address::Parse(address));
  UplinkOptions options = MakeUplinkOptions(address, settings.token);
  std::shared_ptr<rpc::Security> security;
  if (!parsed.is_unix()) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        security, rpc::Security::ForClient(
                      settings, tls::Holder::kNode, std::make_shared<SystemClock>(),
                      [this](LogLevel level, const char* event, std::initializer_list<LogField> fields) {
                        log_.Write(level, event, fields);
                      }));
    options.server_problem = [security] { return security->server_problem(); };
  }
  options.connect = [address, security] { return rpc::Connect(address, security.get()); };
  if (parsed.is_unix()) {
    options.channels = UplinkOptions::Channels::kOverSockets;
    options.connect = [access = access_,
                       path = parsed.path()]() -> absl::StatusOr<std::shared_ptr<grpc::Channel>> {
      LOCKSTEP_ASSIGN_OR_RETURN(Fd socket, access->ConnectToSetting(path));
      return rpc::ConnectOver(std::move(socket));
    };
  }
  Link& link = Add(std::move(options), RankFilter::All(), std::make_shared<SpoolBudget>(spool_bytes_));
  link.who = {"aggregator", std::nullopt, address};
  link.uplink->Start();
  return absl::OkStatus();
}

void AggregatorLinks::Dial(const ControlCaller& caller, const v1::DialRequest& request,
                           std::function<void(std::string error)> done) {
  // The answer may come much later.
  auto call = std::make_shared<AuditLog::Call>(
      audit_.Begin("dial", LocalCaller(caller.uid), {{"address", request.address()}}));
  done = [call, done = std::move(done)](std::string error) {
    call->End(error.empty() ? "ok" : "failed", error);
    done(std::move(error));
  };
  const absl::Status status =
      stopping_ ? absl::UnavailableError("the daemon is ending") : TryDial(caller, request, done);
  if (status.ok()) return;
  log_.Warning("dial_refused",
               {{"uid", caller.uid}, {"address", request.address()}, {"reason", status.message()}});
  done(std::string(status.message()));
}

absl::Status AggregatorLinks::TryDial(const ControlCaller& caller, const v1::DialRequest& request,
                                      std::function<void(std::string error)>& done) {
  if (!caller.rights.capture_own && !caller.rights.capture_all) {
    return absl::PermissionDeniedError(
        "you may see your jobs on this node, but not capture them: the daemon's --operators do not include "
        "you");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Address address, rpc::Address::Parse(request.address()));
  if (!address.is_unix()) {
    LOCKSTEP_RETURN_IF_ERROR(AddJobAggregator(caller, request));
    done("");
    return absl::OkStatus();
  }
  if (address.path()[0] != '/')
    return absl::InvalidArgumentError("the daemon dials Unix sockets by absolute path only");
  LOCKSTEP_RETURN_IF_ERROR(CheckDialled(caller.uid));
  rpc::Token token;
  if (!request.token().empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(token, rpc::Token::FromText(request.token()));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Fd socket, access_->Connect(caller.uid, address.path()));
  // Root's daemon can reach every socket, but must not connect a caller to another user's socket.
  LOCKSTEP_ASSIGN_OR_RETURN(const Peer peer, PeerOf(socket.get()));
  if (peer.uid != caller.uid && caller.uid != 0) {
    return absl::PermissionDeniedError(absl::StrCat("the socket ", address.path(), " belongs to user ",
                                                    peer.uid, ", and you are user ", caller.uid));
  }
  UplinkOptions options = MakeUplinkOptions(request.address(), token);
  options.mode = UplinkOptions::Mode::kOnce;
  options.channels = UplinkOptions::Channels::kOverSockets;
  auto shared = std::make_shared<Fd>(std::move(socket));
  options.connect = [shared] { return rpc::ConnectOver(std::move(*shared)); };
  Link& link = Add(std::move(options), RankFilter::Of(caller.captures()), BudgetOf(caller.uid));
  link.dialled = true;
  link.who = LocalCaller(caller.uid);
  if (request.shared()) link.shared_by = caller.uid;
  link.dialled_done = std::move(done);
  link.uplink->Start();
  return absl::OkStatus();
}

absl::Status AggregatorLinks::CheckDialled(uid_t caller) const {
  size_t all = 0;
  size_t own = 0;
  for (const auto& [id, link] : links_) {
    all += link.dialled;
    own += link.dialled && link.who.uid == caller;
  }
  if (own >= kMostDialledByOne) {
    return absl::ResourceExhaustedError(absl::StrCat("the daemon already serves ", own, " captures of user ",
                                                     caller,
                                                     ", and one user may have no more: wait "
                                                     "until one has ended"));
  }
  // Root and the daemon's user always have a place.
  if (all >= kMostDialled && caller != 0 && caller != node_.owner) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the daemon already serves ", all, " captures, which is the limit: try again later"));
  }
  return absl::OkStatus();
}

std::shared_ptr<SpoolBudget> AggregatorLinks::BudgetOf(uid_t user) {
  for (const auto& [id, link] : links_) {
    if (!link.configured() && link.who.uid == user) return link.budget;
  }
  return std::make_shared<SpoolBudget>(spool_bytes_);
}

absl::Status AggregatorLinks::AddJobAggregator(const ControlCaller& caller, const v1::DialRequest& request) {
  size_t all = 0;
  size_t own = 0;
  for (const auto& [id, link] : links_) {
    // Each rank of a job passes the same aggregator, and the daemon's user may also have configured it.
    const bool same = link.uplink->options().name == request.address();
    if (same && (link.passed_by == caller.uid || (link.configured() && caller.uid == node_.owner)))
      return absl::OkStatus();
    all += link.passed_by.has_value();
    own += link.passed_by == caller.uid;
  }
  if (all >= kMostPassed || own >= kMostPassedByOne) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this daemon already has ", own, " of your aggregators and ", all,
                     " in all, and the limit is reached: an ended one is removed after a minute"));
  }
  // A token is required, because every user of a machine can connect to its ports.
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Token token, rpc::Token::FromText(request.token()));
  UplinkOptions options = MakeUplinkOptions(request.address(), token);
  options.mode = UplinkOptions::Mode::kWhileReachable;
  auto security = std::make_shared<std::shared_ptr<rpc::Security>>();  // of the uplink's thread
  options.connect = [address = request.address(), token,
                     security]() -> absl::StatusOr<std::shared_ptr<grpc::Channel>> {
    // It takes 50 ms, which the main thread must not spend.
    if (*security == nullptr) {
      LOCKSTEP_ASSIGN_OR_RETURN(*security,
                                rpc::Security::ForClient({.token = token}, tls::Holder::kNode,
                                                         std::make_shared<SystemClock>(), &LogNothing));
    }
    return rpc::Connect(address, security->get());
  };
  options.server_problem = [security] {
    return *security == nullptr ? std::string() : (*security)->server_problem();
  };
  Link& link = Add(std::move(options), RankFilter::Of(caller.captures()), BudgetOf(caller.uid));
  link.passed_by = caller.uid;
  link.who = LocalCaller(caller.uid);
  log_.Info("aggregator_handed_over", {{"uid", caller.uid}, {"address", request.address()}});
  link.uplink->Start();
  return absl::OkStatus();
}

bool AggregatorLinks::HasDialled() const {
  return std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link.second.dialled; });
}

// ---- All connections

void AggregatorLinks::RanksChanged() {
  // The ranks of a job appear together, so one list is sent for all.
  if (ranks_pending_) return;
  ranks_pending_ = true;
  loop_.After(kRanksPause, [this] {
    ranks_pending_ = false;
    for (const auto& [id, link] : links_) SendRanks(link);
  });
}

void AggregatorLinks::SendRanks(const Link& link) const {
  v1::RankUpdate update;
  for (v1::Rank& rank : registry_.Ranks(link.filter)) *update.add_ranks() = std::move(rank);
  for (v1::Rank& rank : departed_.WithLog(link.filter)) *update.add_departed() = std::move(rank);
  link.uplink->SetRanks(std::move(update));
}

void AggregatorLinks::UpdateClockSyncRate() {
  for (auto& [id, link] : links_) {
    link.uplink->SetClockSyncRate(captures_.Busy(id) ? ClockSyncRate::kCapture : ClockSyncRate::kIdle);
  }
}

void AggregatorLinks::Flush(Nanos at_most) {
  const MonoTime until = clock_.Monotonic() + at_most;
  for (auto& [id, link] : links_) link.uplink->Flush(std::max(until - clock_.Monotonic(), Nanos()));
}

absl::StatusOr<std::string> AggregatorLinks::Health() const {
  if (stopping_) return absl::UnavailableError("stopping");
  bool configured = false;
  bool up = true;
  for (const auto& link : links_) {
    if (!link.second.configured()) continue;
    configured = true;
    up = up && link.second.uplink->up();
  }
  return absl::StrCat("ok uplink=", !configured ? "none" : up ? "up" : "down");
}

void AggregatorLinks::AddStatus(uid_t caller, v1::DaemonStatus& daemon) const {
  for (auto& [id, link] : links_) {
    // Not reported to other users, not even to root, because programs that join this aggregator trust its
    // data.
    if (link.shared_by == caller && link.uplink->up())
      daemon.add_shared_aggregators(link.uplink->options().name);
    if (link.dialled || (link.passed_by.has_value() && caller != 0 && *link.passed_by != caller)) continue;
    const OffsetEstimate offset = link.uplink->Offset();
    if (offset.known && daemon.clock_bound_ns() == 0) {
      daemon.set_clock_offset_ns(offset.offset.ns());
      daemon.set_clock_bound_ns(offset.bound.ns());
      daemon.set_connected_ns(link.uplink->connected_at().ns());
    }
    if (!link.uplink->up()) {
      daemon.add_warnings(absl::StrCat("aggregator ", link.uplink->options().name,
                                       " is unreachable: ", link.uplink->last_error()));
    }
    const uint64_t dropped = link.uplink->spool()->stats().dropped_records;
    if (dropped > 0)
      daemon.add_warnings(
          absl::StrCat(dropped, " records were dropped from the spool so far: raise --spool-bytes"));
  }
}

// ---- CaptureUplinks

bool AggregatorLinks::MayCapture(UplinkId uplink, const ProcessId& process, CaptureTime time) {
  const Link* link = Find(uplink);
  const RegisteredProcess* registered = registry_.Find(process);
  if (registered == nullptr && time == CaptureTime::kPast) {
    const DepartedRank* gone = departed_.Find(process);
    if (gone != nullptr) registered = &gone->process;
  }
  return link != nullptr && registered != nullptr && link->filter.Allows(*registered);
}

Nanos AggregatorLinks::AwayFor(UplinkId uplink) {
  const Link* link = Find(uplink);
  return link == nullptr || !link->away_since ? Nanos() : clock_.Monotonic() - *link->away_since;
}

HostTime AggregatorLinks::ToHost(UplinkId uplink, JobTime t) {
  const Link* link = Find(uplink);
  return link == nullptr ? HostTime(t.ns()) : link->uplink->Offset().ToHost(t);
}

std::shared_ptr<Spool> AggregatorLinks::SpoolOf(UplinkId uplink) {
  const Link* link = Find(uplink);
  return link == nullptr ? nullptr : link->uplink->spool();
}

void AggregatorLinks::SendStates(UplinkId uplink, v1::RankStates states) {
  for (const v1::RankState& state : states.states()) {
    if (state.text().empty()) continue;
    log_.Warning("rank_state", {{"capture", states.capture()},
                                {"pid", state.process().pid()},
                                {"state", v1::RankState::State_Name(state.state())},
                                {"text", state.text()}});
  }
  if (const Link* link = Find(uplink)) link->uplink->SendStates(std::move(states));
}

void AggregatorLinks::SendEnd(UplinkId uplink, const ProcessId& process, const std::string& capture) {
  v1::CaptureEnd end;
  end.set_capture(capture);
  ToProto(process, end.mutable_process());
  if (const Link* link = Find(uplink)) link->uplink->spool()->AddEnd(std::move(end));
}

void AggregatorLinks::Discard(UplinkId uplink, const std::string& capture) {
  if (const Link* link = Find(uplink)) link->uplink->spool()->Forget(capture);
}

// ---- UplinkEvents

void AggregatorLinks::OnUplinkUp(UplinkId uplink) {
  loop_.Post([this, uplink] {
    const auto link = links_.find(uplink);
    if (link == links_.end()) return;
    link->second.away_since.reset();
    captures_.OnUplinkBack(uplink);
    if (auto done = std::exchange(link->second.dialled_done, nullptr)) done("");
  });
}

void AggregatorLinks::OnUplinkDown(UplinkId uplink, const absl::Status& why, bool last) {
  loop_.Post([this, uplink, why, last] {
    const auto link = links_.find(uplink);
    if (link == links_.end()) return;
    if (!link->second.away_since) link->second.away_since = clock_.Monotonic();
    // A restarted aggregator asks again.
    link->second.follows_steps = false;
    CheckSteps();
    if (!last) return;
    if (auto done = std::exchange(link->second.dialled_done, nullptr)) done(std::string(why.message()));
    captures_.OnUplinkGone(uplink);
    removed_spools_.AddCounts(link->second.uplink->spool()->stats());
    links_.erase(link);
  });
}

void AggregatorLinks::OnRequest(UplinkId uplink, const v1::FromAggregator& request) {
  // Slows down an aggregator that floods the main thread with requests. Its reader waits, but only for a
  // limited time.
  for (int waits = 0; pending_requests_ > kMostPendingRequests && waits < 100; ++waits) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ++pending_requests_;
  loop_.Post([this, uplink, request] {
    --pending_requests_;
    HandleRequest(uplink, request);
  });
}

void AggregatorLinks::EndForgotten(UplinkId uplink, const v1::RunningCaptures& running) {
  const Link& link = links_.at(uplink);
  for (const std::string& capture :
       captures_.EndOthers(uplink, {running.captures().begin(), running.captures().end()})) {
    log_.Warning("capture_abandoned", {{"capture", capture},
                                       {"from", link.uplink->options().name},
                                       {"text", "the aggregator was restarted and does not resume it"}});
    audit_.Note("abandon", link.who, "ok", {{"capture", capture}});
  }
}

void AggregatorLinks::NoteArm(const Link& link, const v1::Arm& arm, CaptureTime time) {
  const char* past = time == CaptureTime::kPast ? "yes" : "no";
  log_.Info("arm", {{"capture", arm.capture()},
                    {"ranks", arm.processes_size()},
                    {"past", past},
                    {"from", link.uplink->options().name}});
  audit_.Note("arm", link.who, "ok",
              {{"capture", arm.capture()},
               {"captured_ranks", arm.processes_size()},
               {"sample", arm.sample() ? "yes" : "no"},
               {"past", past}});
}

void AggregatorLinks::HandleRequest(UplinkId uplink, const v1::FromAggregator& request) {
  const auto link = links_.find(uplink);
  if (link == links_.end() || stopping_) return;
  switch (request.message_case()) {
    case v1::FromAggregator::kRegister:
      EndForgotten(uplink, request.register_().running());
      break;
    case v1::FromAggregator::kArm:
      NoteArm(link->second, request.arm(), CaptureTime::kPresent);
      captures_.OnArm(uplink, request.arm());
      break;
    case v1::FromAggregator::kArmPast:
      NoteArm(link->second, request.arm_past(), CaptureTime::kPast);
      captures_.OnArmPast(uplink, request.arm_past());
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
    case v1::FromAggregator::kReadProgress:
      AnswerProgress(link->first, link->second, request.read_progress());
      break;
    case v1::FromAggregator::kFollowSteps:
      FollowSteps(link->second);
      break;
    default:
      break;
  }
}

void AggregatorLinks::FollowSteps(Link& link) {
  if (link.follows_steps) return;
  link.follows_steps = true;
  log_.Info("follow_steps", {{"from", link.uplink->options().name}});
  audit_.Note("follow_steps", link.who, "ok", {});
  steps_.Start([this](const std::vector<v1::ProcessSteps>& all) { SendSteps(all); });
}

void AggregatorLinks::CheckSteps() {
  if (std::none_of(links_.begin(), links_.end(), [](const auto& link) { return link.second.follows_steps; }))
    steps_.Stop();
}

void AggregatorLinks::SendSteps(const std::vector<v1::ProcessSteps>& all) {
  for (const auto& [id, link] : links_) {
    if (!link.follows_steps) continue;
    v1::StepUpdate update;
    int rows = 0;
    for (const v1::ProcessSteps& process : all) {
      const RegisteredProcess* registered = registry_.Find(FromProto(process.process()));
      if (registered == nullptr || !link.filter.Allows(*registered)) continue;
      *update.add_processes() = process;
      rows += process.steps_size();
      if (rows < kMostStepRows) continue;
      link.uplink->SendSteps(std::exchange(update, {}));
      rows = 0;
    }
    if (rows > 0) link.uplink->SendSteps(std::move(update));
  }
}

void AggregatorLinks::AnswerProgress(UplinkId uplink, const Link& link, const v1::ReadProgress& request) {
  progress_.Answer(link.filter, request, [this, uplink, number = request.request()](v1::NodeProgress node) {
    const Link* now = Find(uplink);
    if (now == nullptr) return;
    v1::ProgressAnswer answer;
    answer.set_request(number);
    *answer.mutable_node() = std::move(node);
    now->uplink->SendProgress(std::move(answer));
  });
}

}  // namespace lockstep::daemon
