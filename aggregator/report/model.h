// The report as a value. Names and meaning are those of report.json in docs/formats/report.md.
#ifndef LOCKSTEP_AGGREGATOR_REPORT_MODEL_H_
#define LOCKSTEP_AGGREGATOR_REPORT_MODEL_H_

namespace lockstep::report {

struct Report {};

}  // namespace lockstep::report

#endif  // LOCKSTEP_AGGREGATOR_REPORT_MODEL_H_
