// The name and version of this program, for aggregators, logs and `--version`.
#ifndef LOCKSTEP_DAEMON_NODE_VERSION_H_
#define LOCKSTEP_DAEMON_NODE_VERSION_H_

namespace lockstep::daemon {

inline constexpr char kDaemonVersion[] = "lockstepd " LOCKSTEP_VERSION;

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_VERSION_H_
