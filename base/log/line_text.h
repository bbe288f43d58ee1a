// Pieces of a log's and an audit log's lines.
#ifndef LOCKSTEP_COMMON_LOG_LINE_TEXT_H_
#define LOCKSTEP_COMMON_LOG_LINE_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "base/time.h"

namespace lockstep {

// "2026-03-01T12:00:00.250Z".
std::string TimeText(HostTime t);
// `text` as a JSON string, cleaned (clean_text.h) and cut to `most` bytes.
void AppendQuoted(std::string_view text, size_t most, std::string& line);

}  // namespace lockstep

#endif  // LOCKSTEP_COMMON_LOG_LINE_TEXT_H_
