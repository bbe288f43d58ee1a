// Sends a script of datagrams to the socket of PyTorch's profilers: any bytes, valid polls, descriptors, and
// offers of the main thread in between. The server must go on answering: a valid poll follows the script.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/fuzz_input_fixture.h"
#include "daemon/kineto/kineto_server.h"
#include "daemon/node/own_access.h"
#include "daemon/node/temp_folder_fake.h"

namespace {

using namespace lockstep;
using namespace lockstep::daemon;

constexpr size_t kMostDatagrams = 64;

sockaddr_un Address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

std::string Datagram(const char* type, std::string_view payload) {
  std::string out(kKinetoHeaderBytes, '\0');
  const uint64_t size = payload.size();
  std::memcpy(out.data(), &size, sizeof(size));
  std::memcpy(out.data() + sizeof(size), type, std::strlen(type));
  return out.append(payload);
}

std::string Poll(int32_t wants) {
  const int32_t fields[] = {wants, 1, 0, 0, 4242};
  return Datagram("req", {reinterpret_cast<const char*>(fields), sizeof(fields)});
}

// A client with a socket of its own in the folder, or without a name.
class Client {
 public:
  Client(const std::string& folder, const char* name)
      : path_(folder + "/" + name),
        server_(Address(folder + "/dynolog")),
        fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un own = Address(path_);
    if (*name != '\0' && bind(fd_.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)) != 0)
      std::abort();
    const timeval wait{2, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
  }
  ~Client() { unlink(path_.c_str()); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Send(std::string_view bytes, int descriptor = -1) const {
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_name = const_cast<sockaddr_un*>(&server_);
    message.msg_namelen = sizeof(server_);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (descriptor >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      *header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
      std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
    }
    // libFuzzer's alarm interrupts it while the server's queue is full.
    while (sendmsg(fd_.get(), &message, 0) < 0 && errno == EINTR) {
    }
  }
  // Returns the length of the answer, or -1 if none came.
  ssize_t Receive() const {
    char answer[2 * kLargestKinetoConfig];
    ssize_t length = -1;
    // libFuzzer's alarm interrupts it.
    do {
      length = recv(fd_.get(), answer, sizeof(answer), 0);
    } while (length < 0 && errno == EINTR);
    return length;
  }

 private:
  const std::string path_;
  const sockaddr_un server_;
  const Fd fd_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TempFolder folder;
  static SystemClock clock;
  static const OwnAccess access;
  static const ProcFs processes(access);
  FuzzInput input(data, size);
  KinetoServer server({.owner = geteuid(), .most_processes = 1},
                      OpenKinetoSockets(AbstractName::kNo, {folder.path()}), access, clock, processes, [] {});
  server.Start();
  const ProcessId self = processes.Find(getpid())->id;
  // The sender's answers are not read, as of a client that has no time.
  const Client sender(folder.path(), input.Flag() ? "dynoconfigclient1" : "");
  for (size_t i = 0; i < kMostDatagrams && !input.empty(); ++i) {
    switch (input.Below(7)) {
      case 0:
        sender.Send(input.Text(kLargestKinetoRequest + 8));
        break;
      case 1:
        sender.Send(Datagram("req", input.Text(512)));
        break;
      case 2:
        sender.Send(Datagram("ctxt", input.Text()));
        break;
      case 3:
        sender.Send(Poll(input.Number<int32_t>()), STDERR_FILENO);
        break;
      case 4:
        server.Offer(self, std::string(input.Text()));
        break;
      case 5:
        server.Withdraw(self);
        break;
      case 6:
        for (const KinetoPoll& poll : server.TakePolls()) {
          if (poll.process != self || poll.claimed_pids.empty() || poll.claimed_pids.size() > kMostKinetoPids)
            std::abort();
        }
        if (input.Flag()) server.Forget(self);
        break;
    }
  }
  const Client last(folder.path(), "dynoconfigclient2");
  last.Send(Poll(KinetoRequest::kActivities));
  if (last.Receive() < static_cast<ssize_t>(kKinetoHeaderBytes)) std::abort();
  if (server.Describe().empty()) std::abort();
  return 0;
}
