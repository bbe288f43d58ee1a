// lockstepd: the daemon of a node.
#include "daemon/daemon_main.h"

int main(int argc, char** argv) { return lockstep::daemon::DaemonMain(argc, argv); }
