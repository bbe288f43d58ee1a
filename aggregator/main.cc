// Starts lockstep-aggregator, which receives and analyses the daemons' captures and answers `lockstep`.
#include <unistd.h>

#include "aggregator/aggregator_main.h"
#include "base/program_start.h"

int main(int argc, char** argv) {
  lockstep::BeginProgram("lockstep-aggregator", environ);
  return lockstep::aggregator::AggregatorMain(argc, argv, environ);
}
