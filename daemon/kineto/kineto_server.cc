#include "daemon/kineto/kineto_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/kineto_folder.h"
#include "base/log/clean_text.h"

namespace lockstep::daemon {
namespace {

constexpr int kDatagramsPerTurn = 64;
constexpr int kSweepMillis = 60'000;

}  // namespace

struct KinetoServer::Datagram {
  std::array<std::byte, kLargestKinetoRequest + 1> bytes;
  size_t length = 0;
  sockaddr_un from{};
  socklen_t from_length = 0;
  ucred peer{};
  bool has_peer = false;
};

KinetoServer::KinetoServer(KinetoServerOptions options, KinetoSockets sockets, const HostAccess& access,
                           const Clock& clock, const ProcessTable& processes, std::function<void()> ready)
    : options_(options),
      sockets_(std::move(sockets.sockets)),
      bind_errors_(std::move(sockets.errors)),
      access_(access),
      clock_(clock),
      processes_(processes),
      ready_(std::move(ready)) {}

KinetoServer::~KinetoServer() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wakeup_.get(), &one, sizeof(one));
    thread_.join();
  }
}

void KinetoServer::Start() {
  wakeup_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (sockets_.empty() || !wakeup_.ok()) return;
  thread_ = std::thread([this] { Run(); });
}

void KinetoServer::Run() {
  std::vector<pollfd> waits;
  for (const KinetoSocket& socket : sockets_) waits.push_back({socket.fd(), POLLIN, 0});
  waits.push_back({wakeup_.get(), POLLIN, 0});
  MonoTime sweep_at = clock_.Monotonic();
  while (true) {
    poll(waits.data(), waits.size(), kSweepMillis);
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    for (size_t i = 0; i < sockets_.size(); ++i) {
      for (int n = 0; n < kDatagramsPerTurn && ReceiveOne(sockets_[i]); ++n) {
      }
    }
    if (clock_.Monotonic() < sweep_at) continue;
    sweep_at = clock_.Monotonic() + Nanos::Millis(kSweepMillis);
    // Clients leave their socket files behind.
    for (const KinetoSocket& socket : sockets_) {
      if (!socket.folder().empty()) access_.RemoveDeadSockets(socket.folder(), kKinetoClientPrefix);
    }
  }
}

bool KinetoServer::ReceiveOne(const KinetoSocket& socket) {
  Datagram datagram;
  iovec part{datagram.bytes.data(), datagram.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(64)> control;
  msghdr message{};
  message.msg_name = &datagram.from;
  message.msg_namelen = sizeof(datagram.from);
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = recvmsg(socket.fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0) return errno == EINTR;
  datagram.length = static_cast<size_t>(n);
  datagram.from_length = message.msg_namelen;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET) continue;
    if (c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len >= CMSG_LEN(sizeof(ucred))) {
      std::memcpy(&datagram.peer, CMSG_DATA(c), sizeof(ucred));
      datagram.has_peer = true;
    } else if (c->cmsg_type == SCM_RIGHTS) {
      // The protocol passes no descriptors; any that arrive are closed.
      for (size_t offset = 0; CMSG_LEN(offset + sizeof(int)) <= c->cmsg_len; offset += sizeof(int)) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(c) + offset, sizeof(fd));
        close(fd);
      }
    }
  }
  OnDatagram(socket, datagram);
  return true;
}

void KinetoServer::OnDatagram(const KinetoSocket& socket, const Datagram& datagram) {
  if (!datagram.has_peer) return;
  const auto request = ParseKinetoRequest(std::span(datagram.bytes).first(datagram.length));
  if (!request.ok()) {
    MutexLock lock(&mutex_);
    ++invalid_;
    return;
  }
  const std::string answer = Answer(*request, datagram.peer);
  if (!answer.empty()) SendTo(socket, datagram, answer);
}

std::string KinetoServer::Answer(const KinetoRequest& request, const ucred& peer) {
  // Clients that are not served also receive "nothing pending": without an answer they would wait 90 ms.
  const bool poll = request.kind == KinetoRequest::Kind::kPoll;
  std::string nothing = poll ? EncodeKinetoPollReply("") : EncodeKinetoRegisterReply(-1);
  if (options_.owner != 0 && peer.uid != options_.owner) {
    MutexLock lock(&mutex_);
    ++other_users_;
    return nothing;
  }
  const std::optional<ProcessInfo> info = peer.pid > 0 ? processes_.Find(peer.pid) : std::nullopt;
  if (!info) {
    MutexLock lock(&mutex_);
    ++hidden_pids_;
    return nothing;
  }
  if (poll) return AnswerPoll(request, peer, info->id);
  MutexLock lock(&mutex_);
  const auto same_user = per_user_.find(peer.uid);
  return EncodeKinetoRegisterReply(
      static_cast<int32_t>(same_user == per_user_.end() ? 1 : same_user->second + 1));
}

KinetoServer::Client* KinetoServer::FindOrAdd(const ProcessId& process, const ucred& peer) {
  const auto found = clients_.find(process);
  if (found != clients_.end()) return &found->second;
  size_t& same_user = per_user_[peer.uid];
  if (clients_.size() >= options_.most_processes || same_user >= options_.most_processes_per_user) {
    ++over_limit_;
    if (same_user == 0) per_user_.erase(peer.uid);
    return nullptr;
  }
  ++same_user;
  Client& client = clients_[process];
  client.poll.process = process;
  client.poll.uid = peer.uid;
  return &client;
}

std::string KinetoServer::AnswerPoll(const KinetoRequest& request, const ucred& peer,
                                     const ProcessId& process) {
  bool notify = false;
  std::string answer;
  {
    MutexLock lock(&mutex_);
    Client* client = FindOrAdd(process, peer);
    if (client == nullptr) return EncodeKinetoPollReply("");
    KinetoPoll& poll = client->poll;
    poll.gid = peer.gid;
    poll.claimed_pids = request.pids;
    poll.job = request.job;
    poll.at = clock_.Monotonic();
    ++poll.polls;
    poll.idle = (request.wants & KinetoRequest::kActivities) != 0;
    poll.busy = poll.busy || !poll.idle;
    poll.reports_busy = (request.wants & KinetoRequest::kEvents) == 0;
    const bool offer = poll.idle && !client->offer.empty();
    poll.offered = poll.offered || offer;
    answer = EncodeKinetoPollReply(offer ? client->offer : std::string());
    client->unread = true;
    notify = !notified_;
    notified_ = true;
  }
  if (notify) ready_();
  return answer;
}

// The sender chooses its file's name. It must lie in the folder where we listen and be the sender's own
// socket.
void KinetoServer::SendTo(const KinetoSocket& socket, const Datagram& datagram,
                          const std::string& answer) const {
  constexpr size_t kFamily = offsetof(sockaddr_un, sun_path);
  if (datagram.from_length <= kFamily) return;  // the sender has bound no name
  const size_t length = std::min<size_t>(datagram.from_length, sizeof(sockaddr_un)) - kFamily;
  if (datagram.from.sun_path[0] != '\0') {
    const std::string path(datagram.from.sun_path, strnlen(datagram.from.sun_path, length));
    access_.SendToFile(socket.fd(), socket.folder(), path, datagram.peer.uid, answer);
    return;
  }
  // A full buffer means that the client does not read; it will ask again.
  sendto(socket.fd(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
         reinterpret_cast<const sockaddr*>(&datagram.from), datagram.from_length);
}

void KinetoServer::Offer(const ProcessId& process, std::string config) {
  MutexLock lock(&mutex_);
  const auto client = clients_.find(process);
  if (client == clients_.end()) return;
  client->second.poll.busy = false;
  client->second.offer = std::move(config);
}

void KinetoServer::Withdraw(const ProcessId& process) {
  MutexLock lock(&mutex_);
  const auto client = clients_.find(process);
  if (client != clients_.end()) client->second.offer.clear();
}

void KinetoServer::Forget(const ProcessId& process) {
  MutexLock lock(&mutex_);
  const auto client = clients_.find(process);
  if (client == clients_.end()) return;
  const auto user = per_user_.find(client->second.poll.uid);
  if (user != per_user_.end() && --user->second == 0) per_user_.erase(user);
  clients_.erase(client);
}

std::vector<KinetoPoll> KinetoServer::TakePolls() {
  MutexLock lock(&mutex_);
  notified_ = false;
  std::vector<KinetoPoll> polls;
  for (auto& [id, client] : clients_) {
    if (!std::exchange(client.unread, false)) continue;
    polls.push_back(client.poll);
    client.poll.polls = 0;
    client.poll.offered = false;
    client.poll.busy = false;
  }
  return polls;
}

uint64_t KinetoServer::dropped() const {
  MutexLock lock(&mutex_);
  return invalid_;
}

std::string KinetoServer::Describe() const {
  std::vector<std::string> parts;
  for (const KinetoSocket& socket : sockets_) {
    parts.push_back(socket.folder().empty()
                        ? absl::StrCat("answers at the abstract name ", kKinetoSocketName)
                        : absl::StrCat("answers at ", socket.folder(), "/", kKinetoSocketName));
  }
  parts.insert(parts.end(), bind_errors_.begin(), bind_errors_.end());
  MutexLock lock(&mutex_);
  if (other_users_ > 0) parts.push_back(absl::StrCat("ignored ", other_users_, " requests of other users"));
  if (hidden_pids_ > 0) {
    parts.push_back(absl::StrCat(
        "ignored ", hidden_pids_,
        " requests of processes whose pid it cannot see (run the container in the host's pid namespace, or "
        "the daemon in the host's: hostPID)"));
  }
  if (over_limit_ > 0)
    parts.push_back(absl::StrCat("refused ", over_limit_, " requests: the limit of processes is reached"));
  if (invalid_ > 0) parts.push_back(absl::StrCat("dropped ", invalid_, " datagrams that are not requests"));
  return CleanText(absl::StrJoin(parts, "; "), 1024);
}

}  // namespace lockstep::daemon
