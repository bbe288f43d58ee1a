// lockstep: the command line.
#include "cli/command.h"

int main(int argc, char** argv) { return lockstep::cli::Main(argc, argv); }
