// Starts lockstepd, the daemon of a node.
#include <unistd.h>

#include "base/program_start.h"
#include "daemon/daemon_main.h"

int main(int argc, char** argv) {
  lockstep::BeginProgram("lockstepd", environ);
  return lockstep::daemon::DaemonMain(argc, argv, environ);
}
