// AddWaiting(): adds the paragraphs about waiting to the text report.
#ifndef LOCKSTEP_REPORT_TEXT_TEXT_WAITING_H_
#define LOCKSTEP_REPORT_TEXT_TEXT_WAITING_H_

#include "report/model.h"
#include "report/text/text_page.h"

namespace lockstep::report {

// Adds no paragraph if no rank waited.
void AddWaiting(const Report& report, TextPage& page);

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_TEXT_TEXT_WAITING_H_
