#include "daemon/broker/broker.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "daemon/broker/stacks_reader_process.h"
#include "daemon/broker/user_process.h"
#include "daemon/kineto/kineto_protocol.h"

namespace lockstep::daemon {
namespace {

constexpr uint64_t kLongestIdle = 3600;  // seconds
constexpr size_t kLongestCheckedFile = 4096;

BrokerReply Refusal(int error) { return {.error = error}; }

BrokerReply WithFd(Fd fd, int error) {
  BrokerReply reply;
  reply.error = fd.ok() ? 0 : error;
  reply.fd = std::move(fd);
  return reply;
}

template <typename List>
bool Contains(const List& list, const std::string& text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

// Returns a file in memory with this content, at its begin.
Fd FileInMemory(const char* name, const void* content, size_t size) {
  Fd file(memfd_create(name, MFD_CLOEXEC));
  if (!file.ok() || write(file.get(), content, size) != static_cast<ssize_t>(size)) return Fd();
  return lseek(file.get(), 0, SEEK_SET) == 0 ? std::move(file) : Fd();
}

}  // namespace

void Broker::Serve(int socket) {
  while (ServeOne(socket)) {
  }
}

bool Broker::ServeOne(int socket) {
  const std::optional<BrokerRequest> request = ReceiveRequest(socket);
  if (!request) return false;
  ForgetEndedProcesses();
  const std::optional<BrokerReply> reply = Answer(*request);
  return !reply || SendReply(socket, *reply);
}

std::optional<BrokerReply> Broker::Answer(const BrokerRequest& request) {
  switch (request.call) {
    case BrokerCall::kOpenProcFile:
      return OpenProcFile(request);
    case BrokerCall::kProcesses:
      return Processes();
    case BrokerCall::kCudaIsUp:
      return BrokerReply{.number = access_.CudaIsUp(request.pid) ? 1u : 0u};
    case BrokerCall::kMapsUser:
      return BrokerReply{.number = access_.MapsUser(request.pid, request.uid) ? 1u : 0u};
    case BrokerCall::kReadStacks:
      return StartStacksReader(request);
    case BrokerCall::kSendToFile:
      SendToFile(request);
      return std::nullopt;
    case BrokerCall::kRemoveDeadSockets:
      if (!Contains(settings_.socket_folders, request.text)) return Refusal(EACCES);
      access_.RemoveDeadSockets(request.text, kKinetoClientPrefix);
      return BrokerReply();
    case BrokerCall::kConnectToSetting:
      return ConnectToSetting(request);
    case BrokerCall::kRead:
    case BrokerCall::kAppend:
      return OpenSetting(request);
    case BrokerCall::kSocket:
      return SocketOf(request);
    case BrokerCall::kProcessOf:
      return StartProcess(request);
    default:
      return Refusal(EINVAL);
  }
}

BrokerReply Broker::OpenProcFile(const BrokerRequest& request) const {
  if (!Contains(HostAccess::kProcFiles, request.text)) return Refusal(EACCES);
  Fd file = access_.OpenProcFile(request.pid, request.text);
  if (!Contains(HostAccess::kCheckedAtReading, request.text)) return WithFd(std::move(file), ENOENT);
  char content[kLongestCheckedFile];
  const ssize_t size = read(file.get(), content, sizeof content);
  if (size < 0) return Refusal(ENOENT);
  return WithFd(FileInMemory("proc", content, static_cast<size_t>(size)), ENOMEM);
}

BrokerReply Broker::Processes() const {
  const std::vector<ProcessOwner> found = access_.Processes();
  BrokerReply reply =
      WithFd(FileInMemory("processes", found.data(), found.size() * sizeof(ProcessOwner)), ENOMEM);
  reply.number = found.size();
  return reply;
}

BrokerReply Broker::ConnectToSetting(const BrokerRequest& request) const {
  if (!Contains(settings_.connectable, request.text)) return Refusal(EACCES);
  errno = 0;
  absl::StatusOr<Fd> socket = access_.ConnectToSetting(request.text);
  const int error = errno != 0 ? errno : EIO;
  return WithFd(socket.ok() ? *std::move(socket) : Fd(), error);
}

BrokerReply Broker::OpenSetting(const BrokerRequest& request) const {
  if (request.call == BrokerCall::kAppend) {
    if (!Contains(settings_.appendable, request.text)) return Refusal(EACCES);
    Fd fd = access_.OpenToAppend(request.text);
    const int error = errno;
    return WithFd(std::move(fd), error);
  }
  if (!Contains(settings_.readable, request.text)) return Refusal(EACCES);
  InputFile file = access_.OpenToRead(request.text);
  return WithFd(std::move(file.fd), file.error);
}

BrokerReply Broker::SocketOf(const BrokerRequest& request) const {
  if (request.number >= settings_.sockets.size()) return Refusal(ENOENT);
  Fd copy(fcntl(settings_.sockets[request.number], F_DUPFD_CLOEXEC, 0));
  return WithFd(std::move(copy), EMFILE);
}

void Broker::SendToFile(const BrokerRequest& request) const {
  const std::string folder = request.text.substr(0, request.text.rfind('/'));
  if (!request.fd.ok() || !Contains(settings_.socket_folders, folder)) return;
  access_.SendToFile(request.fd.get(), folder, request.text, request.uid, request.more);
}

bool Broker::HasRoomFor(uid_t uid) const {
  const auto of_user = std::count_if(processes_.begin(), processes_.end(),
                                     [&](const auto& process) { return process.second == uid; });
  return processes_.size() < kMostProcesses && of_user < static_cast<ptrdiff_t>(kMostProcessesOfOneUser);
}

BrokerReply Broker::StartProcess(const BrokerRequest& request) {
  if (!HasRoomFor(request.uid)) return Refusal(EAGAIN);
  auto [ours, theirs] = BrokerSocketPair();
  if (!ours.ok()) return Refusal(EMFILE);
  const pid_t pid = fork();
  if (pid < 0) return Refusal(EAGAIN);
  if (pid == 0) {
    SetReceiveTimeout(theirs.get(),
                      Nanos::Seconds(static_cast<int64_t>(std::min(request.number, kLongestIdle))));
    RunUserProcess(theirs.get(), request.uid, request.gid);
  }
  processes_[pid] = request.uid;
  BrokerReply reply;
  reply.fd = std::move(ours);
  return reply;
}

// The memory of a process is read by a process of the same user, so that its content cannot harm another one.
// The daemon sees only the result.
BrokerReply Broker::StartStacksReader(const BrokerRequest& request) {
  const Fd stat = access_.OpenProcFile(request.pid, "stat");
  struct stat owner = {};
  if (!stat.ok() || fstat(stat.get(), &owner) != 0) return Refusal(ESRCH);
  if (!HasRoomFor(owner.st_uid)) return Refusal(EAGAIN);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Refusal(EMFILE);
  Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return Refusal(EAGAIN);
  if (pid == 0) {
    RunStacksReader(theirs.get(), request.pid, request.number,
                    request.text == kNativeToo ? StackKinds::kPythonAndNative : StackKinds::kPython);
  }
  processes_[pid] = owner.st_uid;
  return WithFd(std::move(ours), 0);
}

void Broker::ForgetEndedProcesses() {
  while (true) {
    const pid_t pid = waitpid(-1, nullptr, WNOHANG);
    if (pid <= 0) return;
    processes_.erase(pid);
  }
}

}  // namespace lockstep::daemon
