// The begin of the broker's child processes.
#ifndef LOCKSTEP_DAEMON_BROKER_CHILD_H_
#define LOCKSTEP_DAEMON_BROKER_CHILD_H_

namespace lockstep::daemon {

// Call it first in a forked process. Closes what the broker has open but the standard files and `kept`, such
// as the daemon's sockets, which must not outlive the daemon here. SIGALRM then ends the process, also in a
// file system that does not answer.
void BeginChild(int kept);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_BROKER_CHILD_H_
