// What the control socket asks of the daemon: Node.Status and Node.Dial.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/job_name.h"
#include "base/rpc/address.h"
#include "base/rpc/channel.h"
#include "base/rpc/status_macros.h"
#include "daemon/daemon.h"

namespace lockstep::daemon {

ToldProcesses Daemon::Told() const {
  std::error_code error;
  return ToldProcesses({.socket = std::filesystem::absolute(options_.socket, error).string(),
                        .ticks_per_second = sysconf(_SC_CLK_TCK)},
                       {.registered = [this](int32_t pid) { return registry_.HasPid(pid); },
                        .by_profiler = [this](int32_t pid) { return registry_.HasProfiledPid(pid); },
                        .refused = [this](int32_t pid) { return visits_.IsRefused(pid); },
                        .asked = [this](const ProcessId& process) { return visits_.HasAsked(process); }});
}

// Who should be a rank and is none, with the reason.
void Daemon::AddMissing(uid_t caller, v1::DaemonStatus& daemon) const {
  for (std::string& warning : Told().Unreached(caller)) daemon.add_warnings(std::move(warning));
  // The daemon's owner also hears of others' processes, which a container may have made of his own.
  for (std::string& warning : visits_.Refusals(caller == owner_ ? 0 : caller))
    daemon.add_warnings(std::move(warning));
}

v1::StatusReply Daemon::Status(uid_t caller, const v1::StatusRequest& request) {
  last_active_ = clock_.Monotonic();
  const Scope scope = Scope::Of(caller);
  v1::StatusReply reply;
  reply.mutable_version()->set_protocol_min(1);
  reply.mutable_version()->set_protocol_max(1);
  reply.mutable_version()->set_program(kDaemonVersion);
  v1::DaemonStatus& daemon = *reply.add_daemons();
  daemon.set_node_id(node_id_);
  daemon.set_host_name(host_name_);
  daemon.set_version(kDaemonVersion);
  daemon.set_kineto(DescribeKineto());
  for (v1::Rank& rank : registry_.Ranks(scope)) {
    const bool asked = request.job().empty() ||
                       MeansJob(request.job(), {rank.job(), rank.job_source(), rank.scheduler_job()});
    if (asked) *daemon.add_ranks() = std::move(rank);
  }
  for (auto& [id, link] : links_) {
    // Not even to root: who joins trusts what it says.
    if (link.shared_by == caller && link.uplink->up())
      daemon.add_shared_aggregators(link.uplink->options().name);
    if (link.dialled || (link.handed_by.has_value() && caller != 0 && *link.handed_by != caller)) continue;
    const OffsetEstimate offset = link.uplink->Offset();
    if (offset.known && daemon.clock_bound_ns() == 0) {
      daemon.set_clock_offset_ns(offset.offset.ns());
      daemon.set_clock_bound_ns(offset.bound.ns());
      daemon.set_connected_ns(link.uplink->connected_at().ns());
    }
    if (!link.uplink->up()) {
      daemon.add_warnings(absl::StrCat("aggregator ", link.uplink->options().name,
                                       " is not reached: ", link.uplink->trouble()));
    }
    const uint64_t dropped = link.uplink->spool()->stats().dropped_records;
    if (dropped > 0)
      daemon.add_warnings(
          absl::StrCat(dropped, " records were dropped from the spool so far: raise --spool-bytes"));
  }
  AddMissing(caller, daemon);
  for (v1::CaptureStatus& capture : captures_.Status()) {
    const bool visible =
        std::any_of(capture.states().begin(), capture.states().end(), [&](const v1::RankState& state) {
          const RegisteredProcess* process = registry_.Find(FromProto(state.process()));
          return process != nullptr && scope.Allows(*process);
        });
    if (visible) *reply.add_captures() = std::move(capture);
  }
  return reply;
}

void Daemon::Dial(uid_t caller, const v1::DialRequest& request, std::function<void(std::string error)> done) {
  last_active_ = clock_.Monotonic();
  // The answer may come much later, on another thread.
  auto call =
      std::make_shared<AuditLog::Call>(audit_.Begin("dial", Local(caller), {{"address", request.address()}}));
  done = [call, done = std::move(done)](std::string error) {
    call->End(error.empty() ? "ok" : "failed", error);
    done(std::move(error));
  };
  const absl::Status status =
      stopping_ ? absl::UnavailableError("the daemon is ending") : TryDial(caller, request, done);
  if (status.ok()) return;
  log_.Warning("dial_refused",
               {{"uid", caller}, {"address", request.address()}, {"reason", status.message()}});
  done(std::string(status.message()));
}

void Daemon::ControlRefused(uid_t caller, pid_t pid, const char* reason) {
  log_.Warning("control_refused", {{"uid", caller}, {"pid", pid}, {"reason", reason}});
  audit_.Refused("connect", Local(caller), reason, {{"pid", pid}});
}

absl::Status Daemon::TryDial(uid_t caller, const v1::DialRequest& request,
                             std::function<void(std::string error)>& done) {
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Address address, rpc::Address::Parse(request.address()));
  if (!address.is_unix()) {
    LOCKSTEP_RETURN_IF_ERROR(TakeOn(caller, request));
    done("");
    return absl::OkStatus();
  }
  if (address.path()[0] != '/')
    return absl::InvalidArgumentError("the daemon dials Unix sockets by absolute path only");
  const auto dialled =
      std::count_if(links_.begin(), links_.end(), [](const auto& link) { return link.second.dialled; });
  if (static_cast<size_t>(dialled) >= kMostDialled) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", dialled, " captures at this daemon already: try again later"));
  }
  rpc::Token token;
  if (!request.token().empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(token, rpc::Token::FromText(request.token()));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Fd socket, rpc::ConnectUnix(address.path()));
  // Root's daemon can reach every socket; it must not be made to reach others' for somebody.
  LOCKSTEP_ASSIGN_OR_RETURN(const Peer peer, PeerOf(socket.get()));
  if (peer.uid != caller && caller != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("the socket ", address.path(), " is not yours but user ", peer.uid, "'s"));
  }
  UplinkOptions options = MakeUplinkOptions(request.address());
  options.token = std::move(token);
  options.mode = UplinkOptions::Mode::kOnce;
  auto shared = std::make_shared<Fd>(std::move(socket));
  options.connect = [shared](const std::string&) { return rpc::ConnectOver(std::move(*shared)); };
  Link& link = AddLink(std::move(options), Scope::Of(caller));
  link.dialled = true;
  link.who = Local(caller);
  if (request.shared()) link.shared_by = caller;
  link.dialled_done = std::move(done);
  link.uplink->Start();
  return absl::OkStatus();
}

absl::Status Daemon::TakeOn(uid_t caller, const v1::DialRequest& request) {
  size_t all = 0;
  size_t own = 0;
  for (const auto& [id, link] : links_) {
    // Each rank of a job hands it over; and the daemon's user may have configured it.
    const bool same = link.uplink->options().name == request.address();
    if (same && (link.handed_by == caller || (link.configured() && caller == owner_)))
      return absl::OkStatus();
    all += link.handed_by.has_value();
    own += link.handed_by == caller;
  }
  if (all >= kMostHanded || own >= kMostHandedByOne) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this daemon holds ", own, " aggregators of yours and ", all,
                     " in all: one that has ended is forgotten after a minute"));
  }
  // A port without a token is open to every user of its machine.
  LOCKSTEP_ASSIGN_OR_RETURN(rpc::Token token, rpc::Token::FromText(request.token()));
  UplinkOptions options = MakeUplinkOptions(request.address());
  options.token = std::move(token);
  options.mode = UplinkOptions::Mode::kWhileThere;
  options.connect = [address = request.address()](const std::string& redirect) {
    return rpc::Connect(redirect.empty() ? address : redirect);
  };
  Link& link = AddLink(std::move(options), Scope::Of(caller));
  link.handed_by = caller;
  link.who = Local(caller);
  log_.Info("aggregator_handed_over", {{"uid", caller}, {"address", request.address()}});
  link.uplink->Start();
  return absl::OkStatus();
}

}  // namespace lockstep::daemon
