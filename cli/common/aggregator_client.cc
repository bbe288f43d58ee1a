#include "cli/common/aggregator_client.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "aggregator/reports/local_analyst.h"
#include "aggregator/server.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/rpc/address.h"
#include "base/rpc/channel.h"
#include "base/rpc/munge.h"
#include "base/rpc/security.h"
#include "base/rpc/status.h"
#include "base/rpc/status_macros.h"
#include "base/tls/tls_folder.h"
#include "cli/common/capture_folder.h"
#include "cli/common/command.h"
#include "lockstep/v1/control.grpc.pb.h"

namespace lockstep::cli {
namespace {

constexpr Nanos kAnswerWithin = Nanos::Seconds(5);
constexpr Nanos kFetchWithin = Nanos::Seconds(600);
constexpr Nanos kDaemonWithin = Nanos::Seconds(5);

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

class GrpcClient final : public AggregatorClient {
 public:
  // Null `credentials`: the token, if any, is the only authentication.
  GrpcClient(std::shared_ptr<grpc::Channel> channel, rpc::Token token,
             std::unique_ptr<rpc::CallerCredentials> credentials)
      : channel_(std::move(channel)),
        stub_(v1::Control::NewStub(channel_)),
        token_(std::move(token)),
        credentials_(std::move(credentials)) {}

  absl::StatusOr<std::unique_ptr<v1::StatusReply>> Status(const std::string& job) override {
    grpc::ClientContext context;
    Prepare(context, kAnswerWithin);
    v1::StatusRequest request;
    request.set_job(job);
    auto reply = std::make_unique<v1::StatusReply>();
    LOCKSTEP_RETURN_IF_ERROR(StatusOf(stub_->Status(&context, request, reply.get())));
    return reply;
  }

  absl::StatusOr<std::unique_ptr<v1::ProgressReply>> Progress(const v1::ProgressRequest& request) override {
    grpc::ClientContext context;
    Prepare(context, kAnswerWithin);
    const auto parts = stub_->Progress(&context, request);
    auto reply = std::make_unique<v1::ProgressReply>();
    v1::ProgressReply part;
    while (parts->Read(&part)) reply->MergeFrom(part);
    LOCKSTEP_RETURN_IF_ERROR(StatusOf(parts->Finish()));
    return reply;
  }

  absl::Status Trace(const v1::TraceRequest& request,
                     const std::function<void(const v1::TraceEvent&)>& on_event) override {
    auto context = std::make_shared<grpc::ClientContext>();
    Prepare(*context, Nanos::Max());
    SetTracing(context);
    return Follow<v1::TraceEvent>(*stub_->Trace(context.get(), request), on_event);
  }

  absl::Status FollowTrace(const std::string& capture, Nanos wait,
                           const std::function<void(const v1::TraceEvent&)>& on_event) override {
    if (!channel_->WaitForConnected(std::chrono::system_clock::now() + std::chrono::nanoseconds(wait.ns())))
      return absl::DeadlineExceededError("it does not answer");
    v1::TraceRequest request;
    request.set_follow(capture);
    return Trace(request, on_event);
  }

  absl::Status Watch(const v1::WatchRequest& request,
                     const std::function<void(const v1::WatchEvent&)>& on_event) override {
    auto context = std::make_shared<grpc::ClientContext>();
    Prepare(*context, Nanos::Max());
    SetTracing(context);
    return Follow<v1::WatchEvent>(*stub_->Watch(context.get(), request), on_event);
  }

  void CancelTrace() override {
    MutexLock lock(&mutex_);
    cancelled_ = true;
    if (tracing_ != nullptr) tracing_->TryCancel();
  }

  absl::StatusOr<std::unique_ptr<v1::JobRecording>> Record(const v1::RecordRequest& request) override {
    grpc::ClientContext context;
    Prepare(context, kAnswerWithin);
    v1::RecordReply reply;
    LOCKSTEP_RETURN_IF_ERROR(StatusOf(stub_->Record(&context, request, &reply)));
    return std::make_unique<v1::JobRecording>(std::move(*reply.mutable_recording()));
  }

  absl::Status Stop(const std::string& capture) override {
    grpc::ClientContext context;
    Prepare(context, kAnswerWithin);
    v1::StopRequest request;
    request.set_capture(capture);
    v1::StopReply reply;
    return StatusOf(stub_->Stop(&context, request, &reply));
  }

  absl::Status Fetch(
      const std::string& capture,
      const std::function<absl::Status(const std::string&, std::string_view)>& on_bytes) override {
    grpc::ClientContext context;
    Prepare(context, kFetchWithin);
    // The capture ran on this connection. If it is gone, the aggregator is, too.
    context.set_wait_for_ready(false);
    v1::FetchRequest request;
    request.set_capture(capture);
    const auto reader = stub_->Fetch(&context, request);
    v1::FetchChunk chunk;
    std::string file;
    bool whole = true;
    absl::Status written;
    while (written.ok() && reader->Read(&chunk)) {
      if (!chunk.name().empty()) file = chunk.name();
      written = on_bytes(file, chunk.data());
      whole = chunk.last_of_file();
    }
    if (!written.ok()) {
      context.TryCancel();
      reader->Finish();
      return written;
    }
    LOCKSTEP_RETURN_IF_ERROR(StatusOf(reader->Finish()));
    if (!whole) return absl::DataLossError(absl::StrCat("the aggregator sent ", file, " only in part"));
    return absl::OkStatus();
  }

 private:
  // A credential is valid for one call.
  void Prepare(grpc::ClientContext& context, Nanos deadline) {
    rpc::Prepare(context, token_, deadline);
    if (credentials_ == nullptr) return;
    const absl::StatusOr<std::string> credential = credentials_->Make();
    if (credential.ok()) context.AddMetadata(rpc::kMungeMetadata, *credential);
    MutexLock lock(&mutex_);
    no_credential_ = credential.ok() ? "" : std::string(credential.status().message());
  }

  // If the aggregator requires authentication, the error also says why no credential was sent.
  absl::Status StatusOf(const grpc::Status& answer) {
    absl::Status status = rpc::FromGrpc(answer);
    MutexLock lock(&mutex_);
    // A server that ends cancels the calls that still run.
    if (absl::IsCancelled(status) && !cancelled_)
      return absl::UnavailableError("the aggregator ended during the call");
    if (!absl::IsUnauthenticated(status) || no_credential_.empty()) return status;
    return absl::UnauthenticatedError(
        absl::StrCat(status.message(), " (no MUNGE credential: ", no_credential_, ")"));
  }

  template <typename Event>
  absl::Status Follow(grpc::ClientReader<Event>& reader, const std::function<void(const Event&)>& on_event) {
    Event event;
    while (reader.Read(&event)) on_event(event);
    const grpc::Status status = reader.Finish();
    SetTracing(nullptr);
    return StatusOf(status);
  }

  void SetTracing(std::shared_ptr<grpc::ClientContext> context) {
    MutexLock lock(&mutex_);
    tracing_ = std::move(context);
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Control::Stub> stub_;
  const rpc::Token token_;
  const std::unique_ptr<rpc::CallerCredentials> credentials_;
  Mutex mutex_;
  std::string no_credential_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::ClientContext> tracing_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;  // by CancelTrace
};

class InProcess final : public LocalAggregator {
 public:
  InProcess(std::unique_ptr<TemporaryFolder> folder, std::unique_ptr<aggregator::Server> server,
            std::unique_ptr<AggregatorClient> client)
      : folder_(std::move(folder)), server_(std::move(server)), client_(std::move(client)) {}
  ~InProcess() override {
    client_ = nullptr;
    server_ = nullptr;
  }
  AggregatorClient& client() override { return *client_; }

 private:
  std::unique_ptr<TemporaryFolder> folder_;
  std::unique_ptr<aggregator::Server> server_;
  std::unique_ptr<AggregatorClient> client_;
};

absl::Status Dial(const std::string& control_socket, const std::string& address, Sharing sharing) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto channel, rpc::Connect(absl::StrCat("unix:", control_socket)));
  const auto stub = v1::Node::NewStub(channel);
  grpc::ClientContext context;
  rpc::Prepare(context, rpc::Token(), kDaemonWithin);
  v1::DialRequest request;
  request.set_address(address);
  request.set_shared(sharing == Sharing::kShared);
  v1::DialReply reply;
  const absl::Status status = rpc::FromGrpc(stub->Dial(&context, request, &reply));
  if (status.code() == absl::StatusCode::kDeadlineExceeded) {
    return absl::DeadlineExceededError(absl::StrCat("the daemon at ", control_socket,
                                                    " does not answer: see its log in the socket's folder"));
  }
  LOCKSTEP_RETURN_IF_ERROR(status);
  if (!reply.error().empty())
    return absl::UnavailableError(absl::StrCat("the daemon cannot connect to this command: ", reply.error()));
  return absl::OkStatus();
}

// An administrator installs the certificate of the site's authority in this folder.
constexpr char kSystemTlsDir[] = "/etc/lockstep/tls";

absl::StatusOr<std::shared_ptr<rpc::Security>> SecurityOf(const AggregatorFlags& flags,
                                                          const rpc::Token& token) {
  rpc::SecuritySettings settings = {.tls_dir = flags.tls_dir, .token = token};
  if (flags.plaintext) settings.plaintext = rpc::SecuritySettings::Plaintext::kYes;
  std::error_code error;
  if (settings.tls_dir.empty() && token.empty() &&
      std::filesystem::exists(absl::StrCat(kSystemTlsDir, "/", tls::kAuthoritiesFile), error))
    settings.tls_dir = kSystemTlsDir;
  return rpc::Security::ForClient(settings, tls::Holder::kUser, std::make_shared<SystemClock>(), &LogNothing);
}

// `security` is null for a Unix socket.
absl::Status WaitForConnection(const std::string& address, const rpc::Security* security,
                               grpc::Channel& channel) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kAnswerWithin.ns());
  while (std::chrono::steady_clock::now() < deadline) {
    if (channel.WaitForConnected(std::chrono::system_clock::now() + std::chrono::milliseconds(50)))
      return absl::OkStatus();
    const std::string problem = security == nullptr ? "" : security->server_problem();
    if (!problem.empty())
      return absl::UnauthenticatedError(absl::StrCat("aggregator ", address, ": ", problem));
  }
  const char* how = "";
  if (security != nullptr) {
    how = security->kind() == rpc::Security::Kind::kPlaintext ? ", with --insecure-plaintext-tcp"
                                                              : ", without --insecure-plaintext-tcp";
  }
  return absl::DeadlineExceededError(absl::StrCat("no aggregator answers at ", address, " within ",
                                                  kAnswerWithin.seconds(),
                                                  " s: check that lockstep-aggregator runs there", how));
}

}  // namespace

void AddAggregatorFlags(CLI::App& app, AggregatorFlags& flags) {
  app.add_option("--aggregator", flags.address,
                 "HOST:PORT or unix:PATH of a lockstep-aggregator for all nodes")
      ->envname("LOCKSTEP_AGGREGATOR");
  app.add_option("--token-file", flags.token_file,
                 "The aggregator's token file; default: MUNGE authenticates you if the aggregator runs "
                 "with --munge")
      ->type_name(kFileValue)
      ->envname("LOCKSTEP_TOKEN_FILE");
  app.add_option("--tls-dir", flags.tls_dir,
                 "Folder with the certificate of the aggregator's authority (ca.crt) and optionally your own "
                 "(tls.crt, tls.key). Default without --token-file: /etc/lockstep/tls")
      ->type_name(kFolderValue)
      ->envname("LOCKSTEP_TLS_DIR");
  app.add_flag("--insecure-plaintext-tcp", flags.plaintext,
               "Connect without encryption, to an aggregator that runs with the same flag")
      ->envname("LOCKSTEP_INSECURE_PLAINTEXT_TCP");
}

absl::StatusOr<std::unique_ptr<TemporaryFolder>> TemporaryFolder::Make() {
  const std::string root = FromEnvironment("TMPDIR");
  // A Unix socket is created in the folder, and its path has at most 107 bytes.
  constexpr size_t kLongestRoot = 60;
  std::string path =
      absl::StrCat(root.empty() || root.size() > kLongestRoot ? "/tmp" : root, "/lockstep-XXXXXX");
  if (::mkdtemp(path.data()) == nullptr)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create folder ", path));
  return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(path));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

absl::StatusOr<std::unique_ptr<AggregatorClient>> ConnectAggregator(const AggregatorFlags& flags) {
  rpc::Token token;
  if (!flags.token_file.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(token, rpc::Token::LoadForCalls(flags.token_file));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Address address, rpc::Address::Parse(flags.address));
  std::shared_ptr<rpc::Security> security;
  if (!address.is_unix()) {
    LOCKSTEP_ASSIGN_OR_RETURN(security, SecurityOf(flags, token));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(auto channel, rpc::Connect(flags.address, security.get()));
  LOCKSTEP_RETURN_IF_ERROR(WaitForConnection(flags.address, security.get(), *channel));
  // A TCP connection without a token authenticates the user by MUNGE, unless a certificate does. A socket
  // needs none of them.
  std::unique_ptr<rpc::CallerCredentials> credentials;
  if (token.empty() && !address.is_unix() && !security->has_certificate()) {
    credentials = std::make_unique<rpc::MungePrograms>(rpc::MungePrograms::Settings{});
  }
  return std::make_unique<GrpcClient>(std::move(channel), std::move(token), std::move(credentials));
}

namespace {

template <typename Request, typename Reply>
absl::StatusOr<std::unique_ptr<Reply>> AskDaemon(const std::string& control_socket, const Request& request,
                                                 grpc::Status (v1::Node::Stub::*call)(grpc::ClientContext*,
                                                                                      const Request&,
                                                                                      Reply*)) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto channel, rpc::Connect(absl::StrCat("unix:", control_socket)));
  const auto stub = v1::Node::NewStub(channel);
  grpc::ClientContext context;
  rpc::Prepare(context, rpc::Token(), kAnswerWithin);
  auto reply = std::make_unique<Reply>();
  LOCKSTEP_RETURN_IF_ERROR(rpc::FromGrpc((stub.get()->*call)(&context, request, reply.get())));
  return reply;
}

}  // namespace

absl::StatusOr<std::unique_ptr<v1::StatusReply>> DaemonStatus(const std::string& control_socket,
                                                              const std::string& job) {
  v1::StatusRequest request;
  request.set_job(job);
  return AskDaemon<v1::StatusRequest, v1::StatusReply>(control_socket, request, &v1::Node::Stub::Status);
}

absl::StatusOr<std::unique_ptr<v1::ProgressReply>> DaemonProgress(const std::string& control_socket,
                                                                  const v1::ProgressRequest& request) {
  return AskDaemon<v1::ProgressRequest, v1::ProgressReply>(control_socket, request,
                                                           &v1::Node::Stub::Progress);
}

absl::StatusOr<std::unique_ptr<LocalAggregator>> StartLocalAggregator(const std::string& control_socket,
                                                                      Sharing sharing) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<TemporaryFolder> folder, TemporaryFolder::Make());
  aggregator::ServerOptions options;
  const std::string address = absl::StrCat("unix:", folder->path(), "/aggregator.sock");
  options.listen = {address};
  options.state_dir = folder->path() + "/state";
  options.analysis = aggregator::ServerAnalysis::kByTheCaller;
  // The rows of a sample are of this user's own job.
  options.analyst = std::make_shared<aggregator::LocalAnalyst>();
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<aggregator::Server> server,
                            aggregator::Server::Start(std::move(options)));
  LOCKSTEP_RETURN_IF_ERROR(Dial(control_socket, address, sharing));
  if (!server->WaitForDaemon(kDaemonWithin)) {
    return absl::DeadlineExceededError(absl::StrCat("the daemon at ", control_socket,
                                                    " did not connect within ", kDaemonWithin.seconds(),
                                                    " s: see its log in the socket's folder"));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<AggregatorClient> client,
                            ConnectAggregator({.address = address}));
  return std::make_unique<InProcess>(std::move(folder), std::move(server), std::move(client));
}

absl::StatusOr<std::unique_ptr<TemporaryFolder>> FetchToTemporary(const AggregatorFlags& flags,
                                                                  const std::string& capture) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<TemporaryFolder> folder, TemporaryFolder::Make());
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<AggregatorClient> client, ConnectAggregator(flags));
  LOCKSTEP_ASSIGN_OR_RETURN(CaptureFolder target, CaptureFolder::Create(folder->path() + "/capture"));
  LOCKSTEP_RETURN_IF_ERROR(client->Fetch(capture, [&](const std::string& file, std::string_view bytes) {
    return target.AppendRecords(file, bytes);
  }));
  LOCKSTEP_RETURN_IF_ERROR(target.WriteProfiles());
  LOCKSTEP_RETURN_IF_ERROR(target.Commit());
  return folder;
}

}  // namespace lockstep::cli
