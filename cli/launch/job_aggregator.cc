#include "cli/launch/job_aggregator.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/rpc/address.h"
#include "base/rpc/channel.h"
#include "base/rpc/status.h"
#include "base/rpc/status_macros.h"
#include "base/rpc/token.h"
#include "cli/common/command.h"
#include "lockstep/v1/control.grpc.pb.h"

namespace lockstep::cli {
namespace {

// Short, because the job's start waits for it.
constexpr Nanos kAggregatorAnswerWithin = Nanos::Seconds(2);
constexpr char kForwarded[] = "OMPI_";

std::string Value(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

void SetForAllNodes(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);
  ::setenv(absl::StrCat(kForwarded, name).c_str(), value.c_str(), 1);
}

void AdoptFromLauncher() {
  for (const char* name : {kAggregatorVariable, kTokenFileVariable, kLaunchVariable}) {
    const std::string forwarded = Value(absl::StrCat(kForwarded, name).c_str());
    if (!forwarded.empty()) ::setenv(name, forwarded.c_str(), 0);
  }
}

JobAggregator JobAggregator::OfEnvironment() {
  JobAggregator job;
  const std::string address = Value(kAggregatorVariable);
  const auto parsed = rpc::Address::Parse(address);
  // Other programs report a wrong address. A Unix socket exists on one node only.
  if (address.empty() || !parsed.ok() || parsed->is_unix()) return job;
  job.address_ = address;
  job.token_file_ = Value(kTokenFileVariable);
  job.of_launcher_ = !Value(kLaunchVariable).empty();
  absl::StatusOr<rpc::Token> token =
      absl::InvalidArgumentError(absl::StrCat(kTokenFileVariable, " is not set"));
  if (!job.token_file_.empty()) token = rpc::Token::Load(job.token_file_);
  if (!token.ok()) {
    PrintMessage(absl::StrCat(
        "the aggregator at ", address, " cannot capture this node's ranks: ", token.status().message(),
        "; every node must be able to read its token: share the folder, or set XDG_STATE_HOME "
        "to a shared one"));
    return job;
  }
  job.token_ = token->text();
  job.usable_ = true;
  return job;
}

void JobAggregator::BeginDaemonStart() const {
  // Hidden also without a readable token, because a daemon that cannot read its token does not start.
  if (address_.empty() || (usable_ && !of_launcher_)) return;
  ::unsetenv(kAggregatorVariable);
  ::unsetenv(kTokenFileVariable);
}

void JobAggregator::EndDaemonStart() const {
  if (address_.empty()) return;
  ::setenv(kAggregatorVariable, address_.c_str(), 0);
  if (!token_file_.empty()) ::setenv(kTokenFileVariable, token_file_.c_str(), 0);
}

absl::Status JobAggregator::HandTo(const DaemonPlace& daemon) const {
  if (!usable_) return absl::OkStatus();
  rpc::PrepareProcess();
  LOCKSTEP_ASSIGN_OR_RETURN(auto channel, rpc::Connect(absl::StrCat("unix:", daemon.control_socket)));
  const auto stub = v1::Node::NewStub(channel);
  grpc::ClientContext context;
  rpc::Prepare(context, rpc::Token(), kAggregatorAnswerWithin);
  v1::DialRequest request;
  request.set_address(address_);
  request.set_token(token_);
  v1::DialReply reply;
  LOCKSTEP_RETURN_IF_ERROR(rpc::FromGrpc(stub->Dial(&context, request, &reply)));
  return reply.error().empty() ? absl::OkStatus() : absl::UnavailableError(reply.error());
}

}  // namespace lockstep::cli
