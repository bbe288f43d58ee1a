// lockstep-aggregator: receives what daemons capture, analyses it, and answers `lockstep`.
#include "aggregator/aggregator_main.h"

int main(int argc, char** argv) { return lockstep::AggregatorMain(argc, argv); }
