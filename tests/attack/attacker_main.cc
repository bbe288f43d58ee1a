// lockstep-attacker attacks a daemon or an aggregator as another user of the machine could, until it is
// killed. tests/attack/attacks_test.py runs it and measures what the owner notices.
//
//   lockstep-attacker ATTACK TARGET NUMBER
//
// TARGET is HOST:PORT, or the absolute path of a Unix socket. NUMBER is the number of threads or connections.
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/files/open_file_limit.h"
#include "daemon/clients/client_fake.h"
#include "lockstep/v1/control.grpc.pb.h"
#include "lockstep/v1/ingest.grpc.pb.h"
#include "wire/ring/segment.h"
#include "wire/ring/writer.h"

namespace lockstep::attack {
namespace {

void Pause(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

// Runs `attack` on `number` threads for ever.
[[noreturn]] void OnThreads(int number, const std::function<void(int)>& attack) {
  std::vector<std::thread> threads;
  for (int i = 0; i < number; ++i) {
    threads.emplace_back([&attack, i] {
      while (true) attack(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::abort();
}

std::string Target(const std::string& target) { return target[0] == '/' ? "unix:" + target : target; }

// TLS with any server, because an attacker has no use for the server's identity.
std::shared_ptr<grpc::ChannelCredentials> Credentials(const std::string& target) {
  if (target[0] == '/') return grpc::InsecureChannelCredentials();
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  return grpc::experimental::TlsCredentials(options);
}

std::shared_ptr<grpc::Channel> Channel(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  return grpc::CreateCustomChannel(Target(target), Credentials(target), arguments);
}

std::unique_ptr<grpc::ClientContext> Call() {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  return context;
}

// ---- An aggregator's port

// Requests of 15 MiB without a token, four at a time on each connection.
void BigRequests(const std::string& target, int) {
  v1::StatusRequest request;
  request.set_job(std::string(15u << 20, 'x'));
  const auto channel = Channel(target);
  std::vector<std::thread> calls;
  for (int i = 0; i < 4; ++i) {
    calls.emplace_back([&] {
      const auto stub = v1::Control::NewStub(channel);
      for (int n = 0; n < 20; ++n) {
        v1::StatusReply reply;
        stub->Status(Call().get(), request, &reply);
      }
    });
  }
  for (std::thread& call : calls) call.join();
}

// Opens streams without a token and ends them at once.
void Streams(const std::string& target, int) {
  const auto stub = v1::Ingest::NewStub(Channel(target));
  for (int n = 0; n < 1000; ++n) {
    const auto context = Call();
    const auto stream = stub->Stream(context.get());
    context->TryCancel();
    stream->Finish();
  }
}

// Calls with a credential that MUNGE must refuse.
void MungeCredentials(const std::string& target, int i) {
  const auto stub = v1::Control::NewStub(Channel(target));
  for (int n = 0; n < 1000; ++n) {
    const auto context = Call();
    context->AddMetadata("lockstep-munge", "MUNGE:AwQFAAAinvented" + std::to_string(i * 1000 + n) + ":");
    v1::StatusReply reply;
    stub->Status(context.get(), {}, &reply);
  }
}

// ---- Root's daemon

// Requests of 1 MB over the daemon's control socket, from as many connections as there are threads.
void ControlRequests(const std::string& target, int) {
  v1::DialRequest request;
  request.set_address(std::string(900u << 10, 'x'));
  const auto stub = v1::Node::NewStub(Channel(target));
  for (int n = 0; n < 50; ++n) {
    v1::DialReply reply;
    stub->Dial(Call().get(), request, &reply);
  }
}

// Asks the daemon to connect to sockets of this user that never answer.
void IdleDials(const std::string& target, int) {
  char folder[] = "/tmp/lockstep-attack-XXXXXX";
  const std::string path = std::string(::mkdtemp(folder)) + "/s";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(listener.get(), 64) != 0)
    return Pause(100);
  v1::DialRequest request;
  request.set_address("unix:" + path);
  v1::DialReply reply;
  v1::Node::NewStub(Channel(target))->Dial(Call().get(), request, &reply);
  ::unlink(path.c_str());
  ::rmdir(folder);
}

// Registers clients that offer a segment of 4 GiB whose writer never stops.
void OfferedSegments(const std::string& target, int) {
  const Fd offered(::memfd_create("offered", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ring::Segment segment;
  if (ring::Segment::Create({.main_ring_bytes = uint64_t{1} << 31, .ring_count = 1}, &segment) !=
      ring::SegmentError::kNone)
    return;
  daemon::FakeClient client;
  auto hello = daemon::FakeClient::MakeHello("");
  hello.reserved = 1;
  if (client.Connect(target)) client.Send(hello, segment.fd());
  Pause(100);
}

// Registers as a rank, takes part in captures, and writes records without end.
void FloodedRing(const std::string& target, int) {
  daemon::FakeClient client;
  if (!client.Connect(target) || !client.Register("LOCKSTEP_JOB=flood\nLOCKSTEP_RANK=0\n"))
    return Pause(1000);
  ring::ClaimRing(client.segment().ring(0), 1);
  ring::RingWriter writer = client.segment().Writer(0);
  const auto arm = client.Expect<ring::Arm>(ring::MessageType::kArm, std::chrono::seconds(60));
  if (!arm) return;
  auto state = daemon::FakeClient::Make<ring::State>(ring::MessageType::kState);
  state.capture = arm->capture;
  state.state = ring::ClientState::kArmed;
  client.Send(state);
  if (!client.Expect<ring::Start>(ring::MessageType::kStart, std::chrono::seconds(60))) return;
  state.state = ring::ClientState::kCapturing;
  client.Send(state);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(8);
  for (uint64_t id = 1; std::chrono::steady_clock::now() < until; id += 1000)
    daemon::FakeClient::WriteKernels(writer, 1000, static_cast<int64_t>(id),
                                     daemon::FakeClient::Names::kDefine);
  state.state = ring::ClientState::kDone;
  client.Send(state);
}

// ---- Any socket

// Keeps `number` connections open that send nothing, and replaces those that the server closes.
[[noreturn]] void SilentConnections(const std::string& target, int number) {
  sockaddr_un local{};
  sockaddr_in remote{};
  local.sun_family = AF_UNIX;
  std::memcpy(local.sun_path, target.data(), std::min(target.size(), sizeof(local.sun_path) - 1));
  remote.sin_family = AF_INET;
  remote.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  remote.sin_port = htons(static_cast<uint16_t>(std::atoi(target.substr(target.rfind(':') + 1).c_str())));
  const bool is_unix = target[0] == '/';
  const int type = target.find("client.sock") != std::string::npos ? SOCK_SEQPACKET : SOCK_STREAM;
  std::vector<Fd> open(static_cast<size_t>(number));
  while (true) {
    for (Fd& fd : open) {
      char byte;
      const bool closed = !fd.ok() || ::recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0;
      if (!closed) continue;
      fd.reset(::socket(is_unix ? AF_UNIX : AF_INET, type | SOCK_CLOEXEC, 0));
      const int failed = is_unix ? ::connect(fd.get(), reinterpret_cast<sockaddr*>(&local), sizeof(local))
                                 : ::connect(fd.get(), reinterpret_cast<sockaddr*>(&remote), sizeof(remote));
      if (failed != 0) fd.reset();
    }
    Pause(1);
  }
}

int Main(int argc, char** argv) {
  const std::map<std::string, void (*)(const std::string&, int)> attacks = {
      {"big-requests", &BigRequests},     {"streams", &Streams},
      {"credentials", &MungeCredentials}, {"control-requests", &ControlRequests},
      {"idle-dials", &IdleDials},         {"offered-segments", &OfferedSegments},
      {"flooded-ring", &FloodedRing},
  };
  RaiseOpenFileLimit();
  if (argc == 4 && std::string(argv[1]) == "silent") SilentConnections(argv[2], std::atoi(argv[3]));
  const auto attack = argc == 4 ? attacks.find(argv[1]) : attacks.end();
  if (attack == attacks.end()) {
    std::fprintf(stderr, "usage: lockstep-attacker ATTACK TARGET NUMBER\nattacks: silent");
    for (const auto& [name, run] : attacks) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  OnThreads(std::atoi(argv[3]), [&](int i) { attack->second(argv[2], i); });
}

}  // namespace
}  // namespace lockstep::attack

int main(int argc, char** argv) { return lockstep::attack::Main(argc, argv); }
