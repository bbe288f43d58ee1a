// The messages between the daemon and its broker, and between the daemon and the broker's processes. Both
// ends are the same program, but the broker trusts no request: a faulty daemon could send anything.
//
// A message is one packet of a SOCK_SEQPACKET socket, and has at most one descriptor. Each request has one
// reply, except kSendToFile.
#ifndef LOCKSTEP_DAEMON_BROKER_MESSAGES_H_
#define LOCKSTEP_DAEMON_BROKER_MESSAGES_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/time.h"

namespace lockstep::daemon {

// The calls of HostAccess of the same names, and those of its user's folders.
enum class BrokerCall : uint32_t {
  // To the broker.
  kOpenProcFile,  // pid, text: name
  kProcesses,     // reply: a descriptor of a memory file with ProcessOwner values
  kCudaIsUp,      // pid
  kMapsUser,      // pid, uid
  kReadStacks,    // pid, number: start ticks, text: kNativeToo or empty. Reply: a pipe with a ProcessStacks
  kSendToFile,    // descriptor, text: path, uid: owner, more: bytes. No reply
  kRemoveDeadSockets,  // text: folder
  kConnectToSetting,   // text: path, one of the daemon's settings
  kRead,               // text: path, one of the daemon's settings
  kAppend,             // text: path, one of the daemon's settings
  kSocket,             // number: which of the daemon's sockets, from 0. ENOENT if the daemon has fewer
  // uid, gid, number: the process ends when it has no request for so many seconds; 0: it waits on. Reply: the
  // socket of a process with that user's rights
  kProcessOf,
  // To a process with a user's rights.
  kStatAsSeenBy,  // pid, text: path
  kConnect,       // text: path
  kOpenFolder,    // pid, number: start ticks, text: folder. Reply: number
  kCloseFolder,   // number
  kStat,          // number, text: name
  kOpen,          // number, text: name
  kRemove,        // number, text: name
};

inline constexpr std::string_view kNativeToo = "native";

struct BrokerRequest {
  BrokerCall call = BrokerCall::kOpenProcFile;
  int32_t pid = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint64_t number = 0;
  std::string text;
  std::string more;
  Fd fd;
};

struct BrokerReply {
  int32_t error = 0;  // as errno; 0: the call succeeded
  uint64_t number = 0;
  std::optional<struct stat> info;
  Fd fd;
};

// The most bytes of text and more together.
inline constexpr size_t kLargestBrokerText = 96u << 10;

// Send return false if the peer is gone or the message is too large. Receive return nothing if the peer is
// gone or the packet is invalid. All wait, unless the socket has a timeout.
bool SendRequest(int socket, const BrokerRequest& request);
std::optional<BrokerRequest> ReceiveRequest(int socket);
bool SendReply(int socket, const BrokerReply& reply);
std::optional<BrokerReply> ReceiveReply(int socket);

// Returns a connected pair, both close-on-exec. The descriptors are invalid if the system has none.
std::pair<Fd, Fd> BrokerSocketPair();
// Limits the time that a Receive waits; 0: it is not limited.
void SetReceiveTimeout(int socket, Nanos timeout);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_BROKER_MESSAGES_H_
