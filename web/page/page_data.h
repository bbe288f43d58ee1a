// A capture's data as the page reads it (web/src/data.ts).
#ifndef LOCKSTEP_AGGREGATOR_HTML_PAGE_DATA_H_
#define LOCKSTEP_AGGREGATOR_HTML_PAGE_DATA_H_

#include <string>

#include "absl/status/statusor.h"
#include "web/page/page.h"

namespace lockstep::html {

// As PackedData::Seal() gives it: letters, digits, '+', '/' and '=' only, whatever the capture's names hold.
absl::StatusOr<std::string> PageData(const PageInput& input);

}  // namespace lockstep::html

#endif  // LOCKSTEP_AGGREGATOR_HTML_PAGE_DATA_H_
