// Starts lockstep, the command-line program.
#include <unistd.h>

#include "base/program_start.h"
#include "cli/common/command.h"

int main(int argc, char** argv) {
  lockstep::BeginProgram("lockstep", environ);
  return lockstep::cli::Main(argc, argv);
}
