// A what-if's answer, as text for a person and as one JSON document (schema lockstep.whatif/1,
// docs/formats/whatif.md).
#ifndef LOCKSTEP_AGGREGATOR_REPORT_WHATIF_REPORT_H_
#define LOCKSTEP_AGGREGATOR_REPORT_WHATIF_REPORT_H_

#include <string>

#include "analysis/gains/whatif.h"
#include "report/report.h"

namespace lockstep::report {

std::string RenderWhatIf(const analysis::WhatIfRequest& request, const analysis::WhatIfResult& result,
                         const TextOptions& options = {});

// Ends in a newline.
std::string WhatIfJson(const analysis::WhatIfRequest& request, const analysis::WhatIfResult& result);

}  // namespace lockstep::report

#endif  // LOCKSTEP_AGGREGATOR_REPORT_WHATIF_REPORT_H_
