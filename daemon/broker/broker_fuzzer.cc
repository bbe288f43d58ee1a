// Sends packets to a broker as a faulty daemon could: valid requests with any values, and any bytes. The
// broker must do only what its settings and HostAccess allow, and go on serving valid requests.
//
// Requests that start a process are left out: they would fork the fuzzer.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "base/fuzz_input_fixture.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/messages.h"
#include "daemon/broker/user_process.h"

namespace lockstep::daemon {
namespace {

constexpr char kFolder[] = "/run/lockstep/kineto";
constexpr char kReadable[] = "/etc/lockstep/token";
constexpr char kAppendable[] = "/var/log/lockstepd";
constexpr char kConnectable[] = "/run/lockstep/aggregator.sock";
constexpr char kEnvironment[] = "environ";
constexpr size_t kMostPackets = 32;

void Check(bool allowed) {
  if (!allowed) std::abort();
}

Fd AnyFile() { return Fd(open("/dev/null", O_RDWR | O_CLOEXEC)); }

// Ends the fuzzer if the broker asks for something that the settings do not name.
struct CheckedAccess final : HostAccess {
  Fd OpenProcFile(int32_t, std::string_view name) const override {
    Check(std::find(std::begin(kProcFiles), std::end(kProcFiles), name) != std::end(kProcFiles));
    return AnyFile();
  }
  std::vector<ProcessOwner> Processes() const override { return {{1, 0}, {2, 1000}}; }
  bool CudaIsUp(int32_t) const override { return true; }
  std::optional<struct stat> StatAsSeenBy(int32_t, const std::string&) const override { std::abort(); }
  v1::ProcessStacks ReadStacks(int32_t, uint64_t, StackKinds) const override { std::abort(); }
  bool MapsUser(int32_t, uid_t) const override { return true; }
  void SendToFile(int socket, const std::string& folder, const std::string& path, uid_t,
                  std::string_view) const override {
    Check(socket >= 0 && folder == kFolder && path.substr(0, path.rfind('/')) == kFolder);
  }
  void RemoveDeadSockets(const std::string& folder, const std::string&) const override {
    Check(folder == kFolder);
  }
  absl::StatusOr<Fd> Connect(uid_t, const std::string&) const override { std::abort(); }
  absl::StatusOr<Fd> ConnectToSetting(const std::string& path) const override {
    Check(path == kConnectable);
    return AnyFile();
  }
  InputFile OpenToRead(const std::string& path) const override {
    Check(path == kReadable);
    InputFile file;
    file.fd = AnyFile();
    return file;
  }
  Fd OpenToAppend(const std::string& path) const override {
    Check(path == kAppendable);
    return AnyFile();
  }
  absl::StatusOr<std::unique_ptr<UserFolders>> FoldersOf(uid_t, gid_t) const override { std::abort(); }
};

std::string TextOf(FuzzInput& input) {
  static constexpr const char* kTexts[] = {kFolder, kReadable, kAppendable, kConnectable, kEnvironment};
  std::string text = input.Flag() ? kTexts[input.Below(std::size(kTexts))] : "";
  text += input.Text();
  return text;
}

// Calls that fork are left out.
bool Forks(uint32_t call) {
  return call == static_cast<uint32_t>(BrokerCall::kProcessOf) ||
         call == static_cast<uint32_t>(BrokerCall::kReadStacks);
}

void SendValid(FuzzInput& input, int socket) {
  BrokerRequest request;
  request.call = static_cast<BrokerCall>(input.Below(static_cast<size_t>(BrokerCall::kRemove) + 1));
  request.pid = input.Number<int32_t>();
  request.uid = input.Number<uint32_t>();
  request.number = input.Number<uint64_t>();
  request.text = TextOf(input);
  request.more = input.Text();
  if (input.Flag()) request.fd = AnyFile();
  if (!Forks(static_cast<uint32_t>(request.call))) SendRequest(socket, request);
}

// The first four bytes of a packet are the number of the call.
void SendBytes(FuzzInput& input, int socket) {
  const std::string_view bytes = input.Text(2048);
  uint32_t call = 0;
  std::memcpy(&call, bytes.data(), std::min(bytes.size(), sizeof(call)));
  if (!Forks(call)) send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

void DropReplies(int socket) {
  while (recv(socket, nullptr, 0, MSG_DONTWAIT | MSG_TRUNC) > 0) {
  }
}

// Serves the packets that have been sent. Returns false after an invalid one, which ends the connection.
bool Serve(Broker& broker, int socket) {
  char byte = 0;
  while (recv(socket, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) > 0) {
    if (!broker.ServeOne(socket)) return false;
  }
  return true;
}

void RunScript(FuzzInput& input, Broker& broker) {
  auto [daemon, served] = BrokerSocketPair();
  for (size_t i = 0; i < kMostPackets && !input.empty(); ++i) {
    if (input.Flag()) {
      SendValid(input, daemon.get());
    } else {
      SendBytes(input, daemon.get());
    }
    if (!Serve(broker, served.get())) return;
    DropReplies(daemon.get());
  }
}

void CheckStillServes(Broker& broker) {
  auto [daemon, served] = BrokerSocketPair();
  BrokerRequest request;
  request.text = kEnvironment;
  Check(SendRequest(daemon.get(), request) && broker.ServeOne(served.get()));
  const std::optional<BrokerReply> reply = ReceiveReply(daemon.get());
  Check(reply && reply->error == 0 && reply->fd.ok());
}

}  // namespace
}  // namespace lockstep::daemon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace daemon = lockstep::daemon;
  lockstep::FuzzInput input(data, size);
  const daemon::CheckedAccess access;
  const lockstep::Fd socket = daemon::AnyFile();
  daemon::Broker broker({.socket_folders = {daemon::kFolder},
                         .connectable = {daemon::kConnectable},
                         .readable = {daemon::kReadable},
                         .appendable = {daemon::kAppendable},
                         .sockets = {socket.get()}},
                        access);
  daemon::RunScript(input, broker);
  daemon::CheckStillServes(broker);
  const std::string_view name = input.Rest();
  daemon::Check(!daemon::IsTraceFileName(name) || name.find('/') == std::string_view::npos);
  return 0;
}
