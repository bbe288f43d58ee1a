// KinetoParser parses blocks of events into rows, including damaged blocks.
#ifndef LOCKSTEP_FORMATS_KINETO_KINETO_PARSER_H_
#define LOCKSTEP_FORMATS_KINETO_KINETO_PARSER_H_

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/common/read_options.h"
#include "formats/kineto/kineto_collector.h"
#include "formats/kineto/trace_document.h"

namespace lockstep::formats {

// It parses a block as a whole. If that fails, it reads the rest of the block event by event, and counts each
// unreadable part with its position. One thread.
class KinetoParser {
 public:
  // `collector` and `damage` outlive the parser. `damage` receives the position of each row that could not be
  // read.
  KinetoParser(KinetoCollector& collector, HostDetail detail, DamageLog& damage)
      : collector_(collector), detail_(detail), damage_(damage) {}

  // May change bytes of the block's text that JSON does not allow.
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

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_KINETO_PARSER_H_
