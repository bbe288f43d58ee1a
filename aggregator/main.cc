// lockstep-aggregator: receives what daemons capture, analyses it, and answers `lockstep`.
#include <unistd.h>

#include "aggregator/aggregator_main.h"
#include "base/program_start.h"

int main(int argc, char** argv) {
  lockstep::BeginProgram("lockstep-aggregator", environ);
  return lockstep::AggregatorMain(argc, argv, environ);
}
