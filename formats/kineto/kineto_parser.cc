#include "formats/kineto/kineto_parser.h"

#include <cstring>
#include <span>
#include <utility>

#include "base/json/utf8.h"
#include "formats/kineto/event_splitter.h"
#include "formats/kineto/kineto_row.h"

namespace lockstep::formats {
namespace {

constexpr size_t kUsualBlock = 1024 * 1024;

// Replaces bytes that JSON does not allow: control characters by blanks, bytes that are not UTF-8 by question
// marks.
void ReplaceForbiddenBytes(std::span<char> text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = Utf8Length(std::string_view(text.data() + at, text.size() - at));
    if (length == 0) {
      text[at++] = '?';
    } else {
      if (length == 1 && static_cast<unsigned char>(text[at]) < ' ') text[at] = ' ';
      at += length;
    }
  }
}

}  // namespace

void KinetoParser::Parse(EventBlock& block) {
  size_t done = 0;
  const simdjson::padded_string_view text(block.text().data(), block.text().size(), block.readable());
  simdjson::error_code error = ParseList(text, block.offset(), done);
  if (error == simdjson::UTF8_ERROR || error == simdjson::UNESCAPED_CHARS) {
    ReplaceForbiddenBytes(std::span(block.data(), block.text().size()));
    error = ParseList(text, block.offset(), done);
  }
  if (error != simdjson::SUCCESS) ParseOneByOne(block.text(), block.offset(), done);
  // After one huge row, the parser would keep an index of four times its size.
  if (parser_.capacity() > kUsualBlock) parser_ = simdjson::ondemand::parser();
}

// `done` receives the position of the last processed element.
simdjson::error_code KinetoParser::ParseList(simdjson::padded_string_view text, uint64_t offset,
                                             size_t& done) {
  simdjson::ondemand::document document;
  if (auto error = parser_.iterate(text).get(document)) return error;
  simdjson::ondemand::array list;
  if (auto error = document.get_array().get(list)) return error;
  for (auto result : list) {
    simdjson::ondemand::value element;
    if (auto error = std::move(result).get(element)) return error;
    KinetoRow row;
    if (auto error = ReadRow(element, detail_, row)) {
      // An element that is not an object is not an event, so nothing is lost with it.
      if (error == simdjson::INCORRECT_TYPE && row.place == nullptr) continue;
      return error;
    }
    if (row.place == nullptr) continue;
    const auto place = static_cast<size_t>(row.place - text.data());
    if (!collector_.Add(row)) damage_.Add(offset + place, "a row without a usable time");
    done = place;
  }
  return simdjson::SUCCESS;
}

bool KinetoParser::ParseSingle(std::string_view event, uint64_t offset) {
  single_.assign(1, '[');
  single_.append(event);
  single_.push_back(']');
  ReplaceForbiddenBytes(single_);
  const size_t size = single_.size();
  single_.append(simdjson::SIMDJSON_PADDING, ' ');
  size_t done = 0;
  const simdjson::padded_string_view text(single_.data(), size, single_.size());
  return ParseList(text, offset - 1, done) == simdjson::SUCCESS && done != 0;
}

void KinetoParser::ParseOneByOne(std::string_view text, uint64_t offset, size_t done) {
  // Leaves out the brackets that the block added around the events.
  const std::string_view events = text.substr(0, text.size() - 1);
  size_t at = 1;
  while (at < events.size()) {
    const char c = events[at];
    if (c == ',' || static_cast<unsigned char>(c) <= ' ') {
      ++at;
      continue;
    }
    const auto end = c == '{' ? FindEventEnd(events, at) : std::nullopt;
    // `done` is a position inside the last event that was already read.
    if (end && (at < done || ParseSingle(events.substr(at, *end - at), offset + at))) {
      at = *end;
      continue;
    }
    damage_.Add(offset + at, "a broken row");
    at = FindEventStart(events, at + 1).value_or(events.size());
  }
}

}  // namespace lockstep::formats
