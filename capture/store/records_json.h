// Text in JSON's notation.
#ifndef LOCKSTEP_CAPTURE_STORE_RECORDS_JSON_H_
#define LOCKSTEP_CAPTURE_STORE_RECORDS_JSON_H_

#include <string>
#include <string_view>

namespace lockstep::capture {

// Includes the quotes. Bytes that are not UTF-8 become U+FFFD. Names come from foreign processes, and the
// document must stay readable.
std::string JsonQuoted(std::string_view text);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_STORE_RECORDS_JSON_H_
