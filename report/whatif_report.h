// Formats the answer of a what-if as text and as one JSON document (schema lockstep.whatif/1,
// docs/formats/whatif.md).
#ifndef LOCKSTEP_REPORT_WHATIF_REPORT_H_
#define LOCKSTEP_REPORT_WHATIF_REPORT_H_

#include <string>

#include "analysis/gains/whatif.h"
#include "report/report.h"

namespace lockstep::report {

std::string RenderWhatIf(const analysis::WhatIfRequest& request, const analysis::WhatIfResult& result,
                         const TextOptions& options = {});

// The document ends in a newline.
std::string WhatIfJson(const analysis::WhatIfRequest& request, const analysis::WhatIfResult& result);

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_WHATIF_REPORT_H_
