// Starts lockstep-aggregator, which receives and analyses the daemons' captures and answers `lockstep`.
#include <unistd.h>

#include "aggregator/aggregator_main.h"
#include "aggregator/reports/analysis_child.h"
#include "aggregator/server.h"
#include "base/program_start.h"

int main(int argc, char** argv) {
  lockstep::BeginProgram("lockstep-aggregator", environ);
  if (lockstep::aggregator::IsAnalysisChild(argc, argv))
    return lockstep::aggregator::AnalysisChildMain(lockstep::aggregator::kProgramVersion);
  return lockstep::aggregator::AggregatorMain(argc, argv, environ);
}
