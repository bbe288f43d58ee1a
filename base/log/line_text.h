// Parts of the lines of the log and the audit log.
#ifndef LOCKSTEP_BASE_LOG_LINE_TEXT_H_
#define LOCKSTEP_BASE_LOG_LINE_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "base/time.h"

namespace lockstep {

// Returns a text such as "2026-03-01T12:00:00.250Z".
std::string TimeText(HostTime t);
// Appends `text` as a JSON string, cleaned (clean_text.h) and cut to `most` bytes.
void AppendQuoted(std::string_view text, size_t most, std::string& line);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_LOG_LINE_TEXT_H_
