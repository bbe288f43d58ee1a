// Blocks of events into rows, damaged ones included.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_KINETO_PARSER_H_
#define LOCKSTEP_AGGREGATOR_TRACE_KINETO_PARSER_H_

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/kineto/kineto_collector.h"
#include "formats/kineto/trace_document.h"

namespace lockstep::trace {

// A block is parsed as a whole; when that fails, what failed is read event by event, and what cannot be read
// is counted with its place. One thread.
class KinetoParser {
 public:
  // Both outlive the parser. `damage` gets a place for every row that could not be read.
  KinetoParser(KinetoCollector& collector, HostDetail detail, DamageLog& damage)
      : collector_(collector), detail_(detail), damage_(damage) {}

  // May change the block's text (bytes that no JSON may hold).
  void Parse(EventBlock& block);

 private:
  simdjson::error_code ParseList(simdjson::padded_string_view text, uint64_t offset, size_t& done);
  void ParseOneByOne(std::string_view text, uint64_t offset, size_t done);
  bool ParseSingle(std::string_view event, uint64_t offset);

  KinetoCollector& collector_;
  const HostDetail detail_;
  DamageLog& damage_;
  simdjson::ondemand::parser parser_;
  std::string single_;  // one event as a list, padded
};

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_KINETO_PARSER_H_
