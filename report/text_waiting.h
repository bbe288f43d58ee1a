// The text report's paragraphs on who waited for whom.
#ifndef LOCKSTEP_AGGREGATOR_REPORT_TEXT_WAITING_H_
#define LOCKSTEP_AGGREGATOR_REPORT_TEXT_WAITING_H_

#include "report/model.h"
#include "report/text_page.h"

namespace lockstep::report {

// Says nothing where nobody waited.
void SayWaiting(const Report& report, TextPage& page);

}  // namespace lockstep::report

#endif  // LOCKSTEP_AGGREGATOR_REPORT_TEXT_WAITING_H_
