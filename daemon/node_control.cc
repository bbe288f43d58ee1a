#include "daemon/node_control.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/job_name.h"
#include "daemon/node/version.h"

namespace lockstep::daemon {
namespace {

// Warns of ranks with several processes that use a GPU, such as a rank and its helper.
void AddSharedRanks(v1::DaemonStatus& daemon) {
  std::map<std::tuple<uint32_t, std::string, int32_t>, std::vector<int32_t>> pids;  // by user, job and rank
  for (const v1::Rank& rank : daemon.ranks()) {
    if (rank.rank() >= 0) pids[{rank.uid(), rank.job(), rank.rank()}].push_back(rank.process().pid());
  }
  for (auto& [key, of_rank] : pids) {
    const auto& [user, job, rank] = key;
    if (of_rank.size() < 2) continue;
    std::sort(of_rank.begin(), of_rank.end());
    daemon.add_warnings(absl::StrCat("rank ", rank, " of job ", job, " has ", of_rank.size(),
                                     " processes that use a GPU (pids ", absl::StrJoin(of_rank, ", "),
                                     "): each is captured as a rank; start a helper with env -u "
                                     "CUDA_INJECTION64_PATH to leave it out"));
  }
}

}  // namespace

NodeControl::NodeControl(NodeInfo node, Registry& registry, const ExpectedProcesses& expected,
                         const ConnectionAttempts& attempts, const NodeCaptures& captures,
                         const KinetoCapturePath& kineto, AggregatorLinks& links, ProgressAnswers& progress,
                         const tls::CertificateWatch& certificate, AuditLog& audit, Log& log)
    : node_(std::move(node)),
      registry_(registry),
      expected_(expected),
      attempts_(attempts),
      captures_(captures),
      kineto_(kineto),
      links_(links),
      progress_(progress),
      certificate_(certificate),
      audit_(audit),
      log_(log) {}

void NodeControl::AddMissing(uid_t caller, v1::DaemonStatus& daemon) const {
  for (std::string& warning : expected_.Unreached(caller)) daemon.add_warnings(std::move(warning));
  // The daemon's owner also sees refused processes of other users, because a container may have mapped the
  // owner's own processes to another user.
  for (std::string& warning : attempts_.Refusals(caller == node_.owner ? 0 : caller))
    daemon.add_warnings(std::move(warning));
  for (std::string& other : attempts_.Presences(caller)) daemon.add_without_context(std::move(other));
}

v1::StatusReply NodeControl::Status(const ControlCaller& caller, const v1::StatusRequest& request) {
  const RankFilter filter = RankFilter::Of(caller.sees());
  v1::StatusReply reply;
  reply.mutable_version()->set_protocol_min(1);
  reply.mutable_version()->set_protocol_max(1);
  reply.mutable_version()->set_program(kDaemonVersion);
  v1::DaemonStatus& daemon = *reply.add_daemons();
  daemon.set_node_id(node_.id);
  daemon.set_host_name(node_.host_name);
  daemon.set_version(kDaemonVersion);
  daemon.set_kineto(kineto_.Describe());
  for (v1::Rank& rank : registry_.Ranks(filter)) {
    const bool selected = request.job().empty() ||
                          SelectsJob(request.job(), {rank.job(), rank.job_source(), rank.scheduler_job()});
    if (selected) *daemon.add_ranks() = std::move(rank);
  }
  AddSharedRanks(daemon);
  links_.AddStatus(caller.sees(), daemon);
  AddMissing(caller.sees(), daemon);
  if (std::string warning = certificate_.Warning(); !warning.empty()) daemon.add_warnings(std::move(warning));
  for (v1::CaptureStatus& capture : captures_.Status()) {
    const bool visible =
        std::any_of(capture.states().begin(), capture.states().end(), [&](const v1::RankState& state) {
          const RegisteredProcess* process = registry_.Find(FromProto(state.process()));
          return process != nullptr && filter.Allows(*process);
        });
    if (visible) *reply.add_captures() = std::move(capture);
  }
  return reply;
}

void NodeControl::Progress(const ControlCaller& caller, const v1::ProgressRequest& request,
                           std::function<void(v1::ProgressReply)> done) {
  progress_.Answer(RankFilter::Of(caller.sees()), request, [done = std::move(done)](v1::NodeProgress node) {
    v1::ProgressReply reply;
    *reply.add_nodes() = std::move(node);
    done(std::move(reply));
  });
}

void NodeControl::Dial(const ControlCaller& caller, const v1::DialRequest& request,
                       std::function<void(std::string error)> done) {
  links_.Dial(caller, request, std::move(done));
}

void NodeControl::ControlRefused(uid_t caller, pid_t pid, const char* reason) {
  log_.Warning("control_refused", {{"uid", caller}, {"pid", pid}, {"reason", reason}});
  audit_.Refused("connect", LocalCaller(caller), reason, {{"pid", pid}});
}

}  // namespace lockstep::daemon
