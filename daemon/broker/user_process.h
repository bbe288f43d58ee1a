// A user's process carries out calls of the daemon with that user's rights. It stats files, opens and removes
// the files that libkineto has left, and connects to the socket of a `lockstep trace`. The user's file system
// can block this process, but not the daemon.
#ifndef LOCKSTEP_DAEMON_BROKER_USER_PROCESS_H_
#define LOCKSTEP_DAEMON_BROKER_USER_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/fd.h"

namespace lockstep::daemon {

// Serves requests at `socket` until the other end closes it, or until its receive timeout. It is the whole
// life of a process that was forked for it; it does not return. Only the names of IsTraceFileName and
// IsCallersSocket are served, so that a faulty daemon gets no other files and sockets of the user. A call
// that takes longer than a minute, or 2 s if the daemon waits for it, ends the process.
[[noreturn]] void RunUserProcess(int socket, uid_t uid, gid_t gid);

// Returns whether libkineto gives traces such a name (kineto_config.h), finished or not.
bool IsTraceFileName(std::string_view name);
// Returns whether the path is absolute and has the name of a socket of `lockstep trace`.
bool IsCallersSocket(std::string_view path);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_BROKER_USER_PROCESS_H_
