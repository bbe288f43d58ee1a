// lockstepd's main program: flags, log, signals.
#ifndef LOCKSTEP_DAEMON_DAEMON_MAIN_H_
#define LOCKSTEP_DAEMON_DAEMON_MAIN_H_

namespace lockstep::daemon {

// 0 after a clean end, 1 when it cannot run, 2 for wrong arguments or settings. `environment` as main gets
// it.
int DaemonMain(int argc, char** argv, char** environment);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_DAEMON_MAIN_H_
