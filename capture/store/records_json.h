// A text as JSON writes it.
#ifndef LOCKSTEP_AGGREGATOR_STORE_RECORDS_JSON_H_
#define LOCKSTEP_AGGREGATOR_STORE_RECORDS_JSON_H_

#include <string>
#include <string_view>

namespace lockstep::store {

// With its quotes. Bytes that are no UTF-8 become U+FFFD: names come from other people's processes, and a
// document that cannot be read again would be worse.
std::string JsonQuoted(std::string_view text);

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_RECORDS_JSON_H_
