#include "daemon/control_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include <atomic>
#include <chrono>
#include <future>

#include "absl/strings/str_cat.h"
#include "base/rpc/server.h"
#include "base/rpc/status.h"
#include "base/rpc/status_macros.h"
#include "lockstep/v1/control.grpc.pb.h"

namespace lockstep::daemon {
namespace {

// A request has a few words, or the variables of one job.
constexpr rpc::ServerLimits kLimitsOfOneUser = {
    .memory_bytes = 64u << 20, .threads = 16, .calls_per_connection = 16, .request_bytes = 1 << 20};

}  // namespace

// Every call is posted to the main thread and waits there for its answer. The state of a call is shared with
// the main thread, so an answer after the timeout is discarded safely.
class ControlServer::NodeService final : public v1::Node::Service {
 public:
  NodeService(uid_t caller, ControlServer& server)
      : caller_(caller),
        roles_(server.roles_),
        timeout_(server.options_.call_timeout),
        loop_(server.loop_),
        handler_(server.handler_),
        scheduler_(server.scheduler_),
        clock_(server.clock_),
        calls_(server.calls_) {}

  grpc::Status Status(grpc::ServerContext*, const v1::StatusRequest* request,
                      v1::StatusReply* reply) override {
    const Running running(*this);
    auto answer = std::make_shared<std::promise<v1::StatusReply>>();
    auto future = answer->get_future();
    loop_.Post([this, answer, caller = Caller(), request = *request] {
      answer->set_value(handler_.Status(caller, request));
    });
    return Wait(future, reply);
  }

  grpc::Status Progress(grpc::ServerContext*, const v1::ProgressRequest* request,
                        v1::ProgressReply* reply) override {
    const Running running(*this);
    auto answer = std::make_shared<std::promise<v1::ProgressReply>>();
    auto future = answer->get_future();
    loop_.Post([this, answer, caller = Caller(), request = *request] {
      handler_.Progress(caller, request,
                        [answer](v1::ProgressReply made) { answer->set_value(std::move(made)); });
    });
    return Wait(future, reply);
  }

  grpc::Status Dial(grpc::ServerContext*, const v1::DialRequest* request, v1::DialReply* reply) override {
    const Running running(*this);
    auto answer = std::make_shared<std::promise<v1::DialReply>>();
    auto future = answer->get_future();
    loop_.Post([this, answer, caller = Caller(), request = *request] {
      handler_.Dial(caller, request, [answer](std::string error) {
        v1::DialReply dialled;
        dialled.set_error(std::move(error));
        answer->set_value(std::move(dialled));
      });
    });
    return Wait(future, reply);
  }

  grpc::Status BeginJob(grpc::ServerContext*, const v1::BeginJobRequest* request,
                        v1::BeginJobReply* reply) override {
    const Running running(*this);
    auto answer = std::make_shared<std::promise<absl::StatusOr<v1::BeginJobReply>>>();
    auto future = answer->get_future();
    loop_.Post(
        [this, answer, request = *request] { answer->set_value(scheduler_.BeginJob(caller_, request)); });
    absl::StatusOr<v1::BeginJobReply> begun;
    if (grpc::Status waited = Wait(future, &begun); !waited.ok()) return waited;
    if (!begun.ok()) return rpc::ToGrpc(begun.status());
    *reply = *std::move(begun);
    return grpc::Status::OK;
  }

  grpc::Status EndJob(grpc::ServerContext*, const v1::EndJobRequest* request, v1::EndJobReply*) override {
    const Running running(*this);
    auto answer = std::make_shared<std::promise<absl::Status>>();
    auto future = answer->get_future();
    loop_.Post(
        [this, answer, request = *request] { answer->set_value(scheduler_.EndJob(caller_, request)); });
    absl::Status ended;
    if (grpc::Status waited = Wait(future, &ended); !waited.ok()) return waited;
    return rpc::ToGrpc(ended);
  }

  void Stop() { stopping_ = true; }

 private:
  // Notes that a handler is running.
  class Running {
   public:
    explicit Running(NodeService& service) : service_(service) { ++service_.calls_.running; }
    ~Running() {
      service_.calls_.last_end_ns = service_.clock_.Monotonic().ns();
      --service_.calls_.running;
    }

   private:
    NodeService& service_;
  };

  ControlCaller Caller() const { return {caller_, roles_.Of(caller_)}; }

  template <typename Reply>
  grpc::Status Wait(std::future<Reply>& future, Reply* reply) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_.ns());
    while (future.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
      if (stopping_) return {grpc::StatusCode::UNAVAILABLE, "the daemon is ending"};
      if (std::chrono::steady_clock::now() > until)
        return {grpc::StatusCode::DEADLINE_EXCEEDED, "the daemon did not answer"};
    }
    *reply = future.get();
    return grpc::Status::OK;
  }

  const uid_t caller_;
  const Roles& roles_;
  const Nanos timeout_;
  EventLoop& loop_;
  ControlHandler& handler_;
  SchedulerHandler& scheduler_;
  const Clock& clock_;
  Calls& calls_;
  std::atomic<bool> stopping_ = false;
};

struct ControlServer::PerUser {
  PerUser(uid_t caller, ControlServer& control) : service(caller, control) {}
  NodeService service;
  std::unique_ptr<grpc::Server> server;
};

ControlServer::ControlServer(ControlServerOptions options, const Roles& roles, EventLoop& loop,
                             const Clock& clock, ControlHandler& handler, SchedulerHandler& scheduler,
                             Log& log)
    : options_(options),
      roles_(roles),
      loop_(loop),
      clock_(clock),
      handler_(handler),
      scheduler_(scheduler),
      log_(log),
      acceptor_(loop, log) {}

ControlServer::~ControlServer() {
  for (auto& [uid, user] : servers_) user->service.Stop();
  for (auto& [uid, user] : servers_)
    user->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
}

absl::Status ControlServer::Start(ListeningSocket socket) {
  socket_.emplace(std::move(socket));
  return acceptor_.Start(socket_->fd(), [this](Fd connection) { Accept(std::move(connection)); });
}

MonoTime ControlServer::last_call() const {
  return calls_.running > 0 ? clock_.Monotonic() : MonoTime(calls_.last_end_ns);
}

void ControlServer::Accept(Fd socket) {
  const absl::StatusOr<Peer> peer = PeerOf(socket.get());
  if (!peer.ok()) return;
  if (options_.owner != 0 && peer->uid != 0 && peer->uid != options_.owner) {
    handler_.ControlRefused(peer->uid, peer->pid, "it is another user's daemon");
    return;
  }
  PerUser* user = ServerFor(peer->uid, peer->pid);
  if (user == nullptr) return;
  if (!connections_.Add(socket.get(), absl::StrCat(next_connection_++), absl::StrCat(peer->uid),
                        clock_.Monotonic())) {
    handler_.ControlRefused(peer->uid, peer->pid, "too many connections");
    return;
  }
  grpc::AddInsecureChannelFromFd(user->server.get(), socket.release());
}

ControlServer::PerUser* ControlServer::ServerFor(uid_t uid, pid_t pid) {
  const auto it = servers_.find(uid);
  if (it != servers_.end()) return it->second.get();
  // Root and the daemon's user always have a place.
  if (servers_.size() >= options_.most_users && uid != 0 && uid != options_.owner) {
    handler_.ControlRefused(uid, pid, "too many users");
    return nullptr;
  }
  auto user = std::make_unique<PerUser>(uid, *this);
  grpc::ServerBuilder builder;
  rpc::Configure(builder, kLimitsOfOneUser);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  builder.RegisterService(&user->service);
  user->server = builder.BuildAndStart();
  if (user->server == nullptr) {
    log_.Error("control_server_failed", {{"uid", uid}});
    return nullptr;
  }
  return (servers_[uid] = std::move(user)).get();
}

}  // namespace lockstep::daemon
