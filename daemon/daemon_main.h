// lockstepd's main program: it handles flags, log and signals.
#ifndef LOCKSTEP_DAEMON_DAEMON_MAIN_H_
#define LOCKSTEP_DAEMON_DAEMON_MAIN_H_

namespace lockstep::daemon {

// Returns 0 after a normal end, 1 if the daemon cannot run, 2 for wrong arguments or settings. `environment`
// is main's third argument.
int DaemonMain(int argc, char** argv, char** environment);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_DAEMON_MAIN_H_
