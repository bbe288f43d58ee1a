#include "daemon/broker/broker_access.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lockstep::daemon {
namespace {

// A caller gets no stacks after this time.
constexpr Nanos kStacksWithin = Nanos::Millis(900);
constexpr Nanos kQuickCall = Nanos::Seconds(3);  // the process itself ends after 2 s
constexpr uint64_t kIdleSeconds = 10;
constexpr size_t kMostUsers = 64;

BrokerRequest RequestOf(BrokerCall call, int32_t pid = 0, std::string text = "") {
  BrokerRequest request;
  request.call = call;
  request.pid = pid;
  request.text = std::move(text);
  return request;
}

BrokerRequest ProcessOf(uid_t uid, gid_t gid, uint64_t idle_seconds) {
  BrokerRequest request = RequestOf(BrokerCall::kProcessOf);
  request.uid = uid;
  request.gid = gid;
  request.number = idle_seconds;
  return request;
}

// Reads to the end. Returns nothing if that takes longer, or if there is more than a stack needs.
std::optional<std::string> ReadPipe(int pipe, Nanos within) {
  constexpr size_t kMost = 256u << 10;
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(within.ns());
  std::string bytes;
  while (bytes.size() < kMost) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd readable = {.fd = pipe, .events = POLLIN};
    if (left.count() <= 0 || poll(&readable, 1, static_cast<int>(left.count())) == 0) return std::nullopt;
    char part[4096];
    const ssize_t size = read(pipe, part, sizeof(part));
    if (size == 0) return bytes;
    if (size < 0 && errno != EINTR) return std::nullopt;
    if (size > 0) bytes.append(part, static_cast<size_t>(size));
  }
  return std::nullopt;
}

class BrokerFolder final : public UserFolder {
 public:
  BrokerFolder(UserSocket& socket, uint64_t number) : socket_(socket), number_(number) {}
  ~BrokerFolder() override { Ask(BrokerCall::kCloseFolder, ""); }

  std::optional<struct stat> Stat(const std::string& name) override {
    return Ask(BrokerCall::kStat, name).info;
  }
  absl::StatusOr<Fd> Open(const std::string& name) override {
    BrokerReply reply = Ask(BrokerCall::kOpen, name);
    if (!reply.fd.ok()) return absl::ErrnoToStatus(reply.error, absl::StrCat("cannot open ", name));
    return std::move(reply.fd);
  }
  void Remove(const std::string& name) override { Ask(BrokerCall::kRemove, name); }

 private:
  BrokerReply Ask(BrokerCall call, const std::string& name) {
    BrokerRequest request = RequestOf(call, 0, name);
    request.number = number_;
    return socket_.Ask(request);
  }

  UserSocket& socket_;
  const uint64_t number_;
};

class BrokerFolders final : public UserFolders {
 public:
  explicit BrokerFolders(Fd socket) : socket_(std::move(socket)) {}
  std::unique_ptr<UserFolder> Open(int32_t pid, uint64_t start_ticks, const std::string& folder) override {
    BrokerRequest request = RequestOf(BrokerCall::kOpenFolder, pid, folder);
    request.number = start_ticks;
    // The number 0 is that of no folder, so its calls find nothing.
    return std::make_unique<BrokerFolder>(socket_, socket_.Ask(request).number);
  }

 private:
  UserSocket socket_;
};

}  // namespace

BrokerReply UserSocket::Ask(const BrokerRequest& request) {
  if (broken_ || !SendRequest(fd_.get(), request)) {
    broken_ = true;
    return {.error = EPIPE};
  }
  std::optional<BrokerReply> reply = ReceiveReply(fd_.get());
  // A reply that comes later would be taken for that of the next call.
  broken_ = !reply;
  return reply ? *std::move(reply) : BrokerReply{.error = ETIMEDOUT};
}

BrokerReply BrokerAccess::AskUser(uid_t uid, gid_t gid, const BrokerRequest& request) const {
  MutexLock lock(&users_mutex_);
  if (users_.size() >= kMostUsers) users_.clear();
  std::unique_ptr<UserSocket>& user = users_[{uid, gid}];
  // A process that had no request for a while has ended.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (user == nullptr || user->broken()) {
      BrokerReply process = Ask(ProcessOf(uid, gid, kIdleSeconds));
      if (!process.fd.ok()) return {.error = process.error};
      SetReceiveTimeout(process.fd.get(), kQuickCall);
      user = std::make_unique<UserSocket>(std::move(process.fd));
    }
    BrokerReply reply = user->Ask(request);
    if (reply.error != EPIPE) return reply;
  }
  return {.error = EPIPE};
}

BrokerReply BrokerAccess::Ask(const BrokerRequest& request) const {
  MutexLock lock(&mutex_);
  if (!SendRequest(socket_.get(), request)) return {.error = EPIPE};
  std::optional<BrokerReply> reply = ReceiveReply(socket_.get());
  return reply ? *std::move(reply) : BrokerReply{.error = EPIPE};
}

bool BrokerAccess::gone() const {
  char byte = 0;
  return recv(socket_.get(), &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) == 0;
}

Fd BrokerAccess::TakeSocket(size_t index) const {
  BrokerRequest request = RequestOf(BrokerCall::kSocket);
  request.number = index;
  return Ask(request).fd;
}

Fd BrokerAccess::OpenProcFile(int32_t pid, std::string_view name) const {
  return Ask(RequestOf(BrokerCall::kOpenProcFile, pid, std::string(name))).fd;
}

std::vector<ProcessOwner> BrokerAccess::Processes() const {
  const BrokerReply reply = Ask(RequestOf(BrokerCall::kProcesses));
  struct stat info = {};
  if (!reply.fd.ok() || fstat(reply.fd.get(), &info) != 0) return {};
  std::vector<ProcessOwner> found(static_cast<size_t>(info.st_size) / sizeof(ProcessOwner));
  const size_t size = found.size() * sizeof(ProcessOwner);
  if (pread(reply.fd.get(), found.data(), size, 0) != static_cast<ssize_t>(size)) return {};
  return found;
}

bool BrokerAccess::CudaIsUp(int32_t pid) const {
  return Ask(RequestOf(BrokerCall::kCudaIsUp, pid)).number != 0;
}

std::optional<struct stat> BrokerAccess::StatAsSeenBy(int32_t pid, const std::string& path) const {
  const Fd status = OpenProcFile(pid, "stat");
  struct stat owner = {};
  if (!status.ok() || fstat(status.get(), &owner) != 0) return std::nullopt;
  return AskUser(owner.st_uid, owner.st_gid, RequestOf(BrokerCall::kStatAsSeenBy, pid, path)).info;
}

v1::ProcessStacks BrokerAccess::ReadStacks(int32_t pid, uint64_t start_ticks, StackKinds kinds) const {
  BrokerRequest request =
      RequestOf(BrokerCall::kReadStacks, pid,
                std::string(kinds == StackKinds::kPythonAndNative ? kNativeToo : std::string_view()));
  request.number = start_ticks;
  const BrokerReply reply = Ask(request);
  if (!reply.fd.ok()) {
    return StacksWithProblem(
        absl::StrCat("the broker could not read the process: ", std::strerror(reply.error)), kinds);
  }
  // The process that writes has the rights of the rank's user, who may stop it.
  const std::optional<std::string> bytes = ReadPipe(reply.fd.get(), kStacksWithin);
  if (!bytes) return StacksWithProblem("the process that reads the memory did not end in time", kinds);
  v1::ProcessStacks stacks;
  if (bytes->empty() || !stacks.ParseFromString(*bytes))
    return StacksWithProblem("the process that reads the memory failed", kinds);
  return stacks;
}

bool BrokerAccess::MapsUser(int32_t pid, uid_t uid) const {
  BrokerRequest request = RequestOf(BrokerCall::kMapsUser, pid);
  request.uid = uid;
  return Ask(request).number != 0;
}

void BrokerAccess::SendToFile(int socket, const std::string& /*folder*/, const std::string& path, uid_t owner,
                              std::string_view bytes) const {
  BrokerRequest request = RequestOf(BrokerCall::kSendToFile, 0, path);
  request.uid = owner;
  request.more = bytes;
  request.fd.reset(dup(socket));
  MutexLock lock(&mutex_);
  SendRequest(socket_.get(), request);
}

void BrokerAccess::RemoveDeadSockets(const std::string& folder, const std::string& /*prefix*/) const {
  Ask(RequestOf(BrokerCall::kRemoveDeadSockets, 0, folder));
}

absl::StatusOr<Fd> BrokerAccess::Connect(uid_t user, const std::string& path) const {
  BrokerReply reply = AskUser(user, user, RequestOf(BrokerCall::kConnect, 0, path));
  if (!reply.fd.ok()) return absl::ErrnoToStatus(reply.error, absl::StrCat("cannot connect to ", path));
  return std::move(reply.fd);
}

absl::StatusOr<Fd> BrokerAccess::ConnectToSetting(const std::string& path) const {
  BrokerReply reply = Ask(RequestOf(BrokerCall::kConnectToSetting, 0, path));
  if (!reply.fd.ok()) return absl::ErrnoToStatus(reply.error, absl::StrCat("cannot connect to ", path));
  return std::move(reply.fd);
}

absl::StatusOr<std::unique_ptr<UserFolders>> BrokerAccess::FoldersOf(uid_t uid, gid_t gid) const {
  BrokerReply process = Ask(ProcessOf(uid, gid, 0));
  if (!process.fd.ok()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the daemon could not start a process with the rights of "
                     "user ",
                     uid, ": ", std::strerror(process.error)));
  }
  return std::make_unique<BrokerFolders>(std::move(process.fd));
}

InputFile BrokerAccess::OpenToRead(const std::string& path) const {
  BrokerReply reply = Ask(RequestOf(BrokerCall::kRead, 0, path));
  InputFile file;
  struct stat info = {};
  file.fd = std::move(reply.fd);
  file.error = reply.error;
  if (!file.fd.ok()) file.why = absl::StrCat("cannot be opened: ", std::strerror(reply.error));
  if (file.fd.ok() && fstat(file.fd.get(), &info) == 0) file.bytes = static_cast<uint64_t>(info.st_size);
  return file;
}

Fd BrokerAccess::OpenToAppend(const std::string& path) const {
  BrokerReply reply = Ask(RequestOf(BrokerCall::kAppend, 0, path));
  errno = reply.error;
  return std::move(reply.fd);
}

}  // namespace lockstep::daemon
