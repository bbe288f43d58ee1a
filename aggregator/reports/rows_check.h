// Counts the rows of stored records before any is decoded.
#ifndef LOCKSTEP_AGGREGATOR_REPORTS_ROWS_CHECK_H_
#define LOCKSTEP_AGGREGATOR_REPORTS_ROWS_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace lockstep::aggregator {

// Reads the headers of all blocks in `folder`/records. A few bytes can state millions of rows, and decoding
// them would need memory and time. Files that cannot be read count as empty, because the analysis reports
// them. kResourceExhausted: the headers state more than `most` rows. The error names the rank with the most
// rows, the numbers, and the option.
absl::Status CheckRows(const std::string& folder, uint64_t most);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_REPORTS_ROWS_CHECK_H_
