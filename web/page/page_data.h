// Writes a capture's data as the page reads it (web/src/data.ts).
#ifndef LOCKSTEP_WEB_PAGE_PAGE_DATA_H_
#define LOCKSTEP_WEB_PAGE_PAGE_DATA_H_

#include <string>

#include "absl/status/statusor.h"
#include "web/page/page.h"

namespace lockstep::web {

// Returns the output of PackedData::Seal(): only letters, digits, '+', '/' and '=', independent of the
// capture's names.
absl::StatusOr<std::string> PageData(const PageInput& input);

}  // namespace lockstep::web

#endif  // LOCKSTEP_WEB_PAGE_PAGE_DATA_H_
