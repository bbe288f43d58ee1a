// Implements `lockstep job`: a scheduler's plugin or prolog reports jobs to the node's daemon.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/rpc/channel.h"
#include "base/rpc/status.h"
#include "base/rpc/status_macros.h"
#include "cli/common/command.h"
#include "cli/common/daemon_socket.h"
#include "lockstep/v1/control.grpc.pb.h"

namespace lockstep::cli {
namespace {

// Short, because the job's start waits for it.
constexpr Nanos kJobAnswerWithin = Nanos::Seconds(1);

constexpr char kJobAbout[] =
    "Notify this node's daemon that a job of the scheduler begins or ends here.\n"
    "\n"
    "For a scheduler's prolog and epilog, as root (docs/slurm.md); Lockstep's Slurm plugin calls it.\n"
    "Afterwards the daemon admits only the job's user under that job's number.\n"
    "\n"
    "Examples:\n"
    "  lockstep job begin --id \"$SLURM_JOB_ID\" --uid \"$SLURM_JOB_UID\"\n"
    "  lockstep job end --id \"$SLURM_JOB_ID\"\n";

struct Flags {
  std::string daemon;
  uint32_t id = 0, uid = 0, array_job = 0, array_task = 0, het_leader = 0, step = 0;
  int32_t pid = 0, tasks = 0;
  CLI::Option* has_array_task = nullptr;
  CLI::Option* has_step = nullptr;
};

absl::StatusOr<std::unique_ptr<v1::Node::Stub>> ConnectDaemon(const Flags& flags,
                                                              grpc::ClientContext& context) {
  rpc::PrepareProcess();
  LOCKSTEP_ASSIGN_OR_RETURN(const DaemonPlace daemon, DaemonFinder(flags.daemon).Find());
  LOCKSTEP_ASSIGN_OR_RETURN(auto channel, rpc::Connect(absl::StrCat("unix:", daemon.control_socket)));
  rpc::Prepare(context, rpc::Token(), kJobAnswerWithin);
  return v1::Node::NewStub(channel);
}

absl::Status Begin(const Flags& flags) {
  v1::BeginJobRequest request;
  request.set_job(flags.id);
  request.set_uid(flags.uid);
  request.set_array_job(flags.array_job);
  if (flags.has_array_task->count() > 0) request.set_array_task(flags.array_task);
  request.set_het_leader(flags.het_leader);
  if (flags.has_step->count() > 0) request.set_step(flags.step);
  request.set_pid(flags.pid);
  request.set_tasks(flags.tasks);
  grpc::ClientContext context;
  LOCKSTEP_ASSIGN_OR_RETURN(const auto stub, ConnectDaemon(flags, context));
  v1::BeginJobReply reply;
  return rpc::FromGrpc(stub->BeginJob(&context, request, &reply));
}

absl::Status End(const Flags& flags) {
  v1::EndJobRequest request;
  request.set_job(flags.id);
  grpc::ClientContext context;
  LOCKSTEP_ASSIGN_OR_RETURN(const auto stub, ConnectDaemon(flags, context));
  v1::EndJobReply reply;
  return rpc::FromGrpc(stub->EndJob(&context, request, &reply));
}

CLI::App* AddVerb(CLI::App& job, const char* name, const char* about, const std::shared_ptr<Flags>& flags,
                  Chosen& chosen, absl::Status (*verb)(const Flags&)) {
  CLI::App* sub = job.add_subcommand(name, about);
  sub->add_option("--id", flags->id, "The job's number")->required();
  sub->add_option("--daemon", flags->daemon, "Client socket of the daemon")->type_name(kSocketValue);
  sub->callback([flags, &chosen, verb] {
    chosen.action = [flags, verb] {
      const absl::Status status = verb(*flags);
      return status.ok() ? ExitCode::kDone : Fail(status);
    };
  });
  return sub;
}

}  // namespace

void AddJob(CLI::App& app, Chosen& chosen) {
  CLI::App* job = AddCommand(app, "job", kJobAbout);
  auto flags = std::make_shared<Flags>();
  CLI::App* begin =
      AddVerb(*job, "begin", "A job, or one step of it, begins on this node", flags, chosen, Begin);
  begin->add_option("--uid", flags->uid, "The job's user")->required();
  begin->add_option("--array-job", flags->array_job, "The array of which it is a task");
  flags->has_array_task = begin->add_option("--array-task", flags->array_task, "Number of the array task");
  begin->add_option("--het-leader", flags->het_leader, "The first component of its heterogeneous job");
  flags->has_step = begin->add_option("--step", flags->step, "Number of the job's step");
  begin->add_option("--pid", flags->pid, "The process that starts the step's tasks; the step ends with it");
  begin->add_option("--tasks", flags->tasks, "Number of tasks in the whole step");
  AddVerb(*job, "end", "The job has left this node", flags, chosen, End);
  job->require_subcommand(1);
}

}  // namespace lockstep::cli
