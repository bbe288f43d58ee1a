// The hash by which each line of the audit log names the one before.
#ifndef LOCKSTEP_BASE_LOG_LINE_HASH_H_
#define LOCKSTEP_BASE_LOG_LINE_HASH_H_

#include <string>
#include <string_view>

namespace lockstep {

// Returns the SHA-256 of the line without its line end, as 64 hexadecimal digits.
std::string HashOfLine(std::string_view line);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_LOG_LINE_HASH_H_
