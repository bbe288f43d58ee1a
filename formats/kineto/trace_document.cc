#include "formats/kineto/trace_document.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "formats/kineto/blanks.h"
#include "formats/kineto/event_splitter.h"

namespace lockstep::formats {
namespace {

// A block and the parser's index fit into a core's cache. The block is large enough to make the cost of
// starting the parser negligible.
constexpr size_t kBlockBytes = 256 * 1024;
// An event that is larger than this is dropped as broken.
constexpr size_t kLargestBlock = 16 * 1024 * 1024;
// Room before the text for the '[' that the block adds.
constexpr size_t kFront = 64;
// Room after the text for the added ']' and for the bytes that the scanner and simdjson read beyond the text.
constexpr size_t kBack = 128;
constexpr size_t kMemberWindow = 64 * 1024;
constexpr size_t kLongestMember = 1024 * 1024;

constexpr std::string_view kEventsName = "\"traceEvents\"";
// Members of the top level that a reader uses. A hostile document may have millions of others, which are not
// kept.
constexpr std::array<std::string_view, 5> kWanted = {"baseTimeNanoseconds", "deviceProperties",
                                                     "distributedInfo", "host_name", "lockstep"};

size_t SkipSeparators(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && (IsBlank(text[at]) || text[at] == ',')) ++at;
  return at;
}

void Keep(std::string& into, char c) {
  if (into.size() < kLongestMember) into.push_back(c);
}

}  // namespace

void DamageLog::Add(uint64_t offset, std::string_view what) {
  ++count_;
  if (placed_ < kPlaces)
    absl::StrAppend(&places_, placed_ == 0 ? "" : ", ", std::string(what), " at byte ", offset);
  ++placed_;
}

void DamageLog::Merge(const DamageLog& other) {
  count_ += other.count_;
  if (other.placed_ != 0 && placed_ < kPlaces)
    absl::StrAppend(&places_, placed_ == 0 ? "" : ", ", other.places_);
  placed_ += other.placed_;
}

std::string DamageLog::Describe() const {
  if (count_ == 0) return "";
  return absl::StrCat(count_, count_ == 1 ? " row" : " rows", " could not be read: ", places_,
                      placed_ > kPlaces ? ", …" : "");
}

bool TraceDocument::Next(EventBlock& block) {
  while (true) {
    switch (state_) {
      case State::kStart:
        Start();
        break;
      case State::kMembers:
        Members();
        break;
      case State::kEvents:
        if (NextEvents(block)) return true;
        break;
      case State::kEnd:
        return false;
    }
  }
}

int TraceDocument::Peek() {
  if (window_at_ == window_.size()) {
    window_offset_ += window_.size();
    window_.resize(input_ended_ ? 0 : kMemberWindow);
    if (!input_ended_) window_.resize(source_.Read(window_));
    input_ended_ = window_.empty();
    window_at_ = 0;
    if (input_ended_) return -1;
  }
  return static_cast<unsigned char>(window_[window_at_]);
}

// Returns the next `count` bytes, or fewer at the end of the input.
std::string_view TraceDocument::Ahead(size_t count) {
  while (window_.size() - window_at_ < count && !input_ended_) {
    window_offset_ += window_at_;
    window_.erase(0, window_at_);
    window_at_ = 0;
    const size_t kept = window_.size();
    window_.resize(kept + kMemberWindow);
    const size_t read = source_.Read(std::span(window_.data() + kept, kMemberWindow));
    window_.resize(kept + read);
    input_ended_ = read == 0;
  }
  return std::string_view(window_).substr(window_at_, count);
}

// True if the list of events begins at this quote, where another text is expected. Damage removed a quote or
// a bracket before it, or the trace is wrapped in another object. In each case these are the events.
bool TraceDocument::AtEvents() { return !has_events_ && AtListOfEvents(); }

bool TraceDocument::AtListOfEvents() {
  if (!Ahead(kEventsName.size()).starts_with(kEventsName)) return false;
  const std::string_view ahead = Ahead(kEventsName.size() + 32).substr(kEventsName.size());
  const size_t colon = SkipBlanks(ahead, 0);
  if (colon == ahead.size() || ahead[colon] != ':') return false;
  const size_t list = SkipBlanks(ahead, colon + 1);
  if (list == ahead.size() || ahead[list] != '[') return false;
  window_at_ += kEventsName.size() + list + 1;
  has_events_ = true;
  return true;
}

char TraceDocument::Take() { return window_[window_at_++]; }

int TraceDocument::PeekNonBlank() {
  while (IsBlank(Peek())) ++window_at_;
  return Peek();
}

void TraceDocument::Start() {
  if (PeekNonBlank() == 0xEF) window_at_ = std::min(window_at_ + 3, window_.size());  // byte order mark
  const int first = PeekNonBlank();
  if (first == '[') {
    ++window_at_;
    bare_list_ = is_json_ = has_events_ = true;
    state_ = State::kEvents;
  } else if (first == '{') {
    ++window_at_;
    is_json_ = true;
    state_ = State::kMembers;
  } else {
    state_ = State::kEnd;
  }
}

TraceDocument::Skipped TraceDocument::SkipText(std::string& into) {
  if (Peek() != '"') return Skipped::kBroken;
  ++window_at_;
  while (Peek() >= 0) {
    if (Peek() == '"') {
      // A string never ends where "traceEvents" begins, unless a quote before it was lost.
      if (AtEvents()) return Skipped::kEvents;
      ++window_at_;
      return Skipped::kWhole;
    }
    const char c = Take();
    Keep(into, c);
    if (c == '\\' && Peek() >= 0) Keep(into, Take());
  }
  return Skipped::kBroken;
}

TraceDocument::Skipped TraceDocument::SkipValue(std::string& into) {
  int depth = 0;
  while (true) {
    const int c = PeekNonBlank();
    if (c < 0) return Skipped::kBroken;
    if (c == '"') {
      if (AtEvents()) return Skipped::kEvents;
      Keep(into, '"');
      if (const Skipped text = SkipText(into); text != Skipped::kWhole) return text;
      Keep(into, '"');
      if (depth == 0) break;
    } else if (depth == 0 && (c == ',' || c == '}' || c == ']')) {
      break;
    } else {
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      Keep(into, Take());
      if (depth == 0 && (c == '}' || c == ']')) break;
    }
  }
  if (into.size() >= kLongestMember) into.clear();
  return Skipped::kWhole;
}

// Skips to the next place that can only be the list of events.
bool TraceDocument::FindEvents() {
  while (!has_events_ && Peek() >= 0) {
    if (Peek() == '"' && AtEvents()) return true;
    ++window_at_;
  }
  return false;
}

TraceDocument::Skipped TraceDocument::Member() {
  while (PeekNonBlank() == ',') ++window_at_;
  // A second list of events holds further rows, so it is read, too.
  if (Peek() == '"' && AtListOfEvents()) return Skipped::kEvents;
  std::string name;
  std::string value;
  if (const Skipped text = SkipText(name); text != Skipped::kWhole) return text;
  if (PeekNonBlank() != ':') return Skipped::kBroken;
  ++window_at_;
  const Skipped skipped = SkipValue(value);
  const bool wanted = std::find(kWanted.begin(), kWanted.end(), name) != kWanted.end();
  if (skipped == Skipped::kWhole && wanted) members_.insert_or_assign(std::move(name), std::move(value));
  return skipped;
}

void TraceDocument::Members() {
  while (true) {
    while (PeekNonBlank() == ',') ++window_at_;
    if (Peek() == '}') {
      CheckTrailingText();
      return;
    }
    const uint64_t at = window_offset_ + window_at_;
    if (Peek() == '{' && has_events_) {
      ResumeEvents();
      return;
    }
    Skipped skipped = Member();
    if (skipped == Skipped::kWhole) continue;
    if (skipped == Skipped::kBroken) {
      if (input_ended_) {
        truncated_ = true;
      } else {
        damage_.Add(at, "a broken member of the document");
      }
      if (FindEvents()) skipped = Skipped::kEvents;
    }
    state_ = skipped == Skipped::kEvents ? State::kEvents : State::kEnd;
    return;
  }
}

// Continues with events after a stray bracket closed the list.
void TraceDocument::ResumeEvents() {
  damage_.Add(window_offset_ + window_at_, "a list of events that ends before its last row");
  state_ = State::kEvents;
}

// Looks at the text after the end of the document. After a comma, the object around the document continues;
// in a bare list, the events continue after a stray bracket. Any other text is damage.
void TraceDocument::CheckTrailingText() {
  state_ = State::kEnd;
  while (Peek() >= 0 && (Peek() <= ' ' || Peek() == '}' || Peek() == ']')) ++window_at_;
  if (Peek() < 0 || (Peek() == ',' && !bare_list_)) return;
  if (Peek() == ',') {
    ResumeEvents();
    return;
  }
  damage_.Add(window_offset_ + window_at_, "text after the end of the trace");
}

size_t TraceDocument::Fill(EventBlock& block, size_t filled) {
  const size_t room = block.capacity_ - kFront - kBack;
  while (filled < room && !input_ended_) {
    const size_t read = source_.Read(std::span(block.memory_.get() + kFront + filled, room - filled));
    input_ended_ = read == 0;
    filled += read;
  }
  return filled;
}

void TraceDocument::TakeRest(const EventBlock& block, size_t from, size_t filled) {
  window_.assign(block.memory_.get() + kFront + from, filled - from);
  window_at_ = 0;
  window_offset_ += from;
}

bool TraceDocument::Emit(EventBlock& block, size_t end, size_t filled) {
  char* const text = block.memory_.get() + kFront;
  const uint64_t offset = window_offset_;
  TakeRest(block, end, filled);
  const size_t begin = SkipSeparators(std::string_view(text, end));
  if (begin >= end) return false;
  text[end] = ']';
  text[static_cast<ptrdiff_t>(begin) - 1] = '[';
  block.begin_ = kFront + begin - 1;
  block.size_ = end - begin + 2;
  block.offset_ = offset + begin - 1;
  return true;
}

bool TraceDocument::Recover(EventBlock& block, size_t& filled, bool& grow) {
  char* const memory = block.memory_.get() + kFront;
  const std::string_view text(memory, filled);
  const size_t start = SkipSeparators(text);
  if (start < filled && text[start] == '{') {
    if (const auto end = FindEventEnd(text, start)) return Emit(block, *end, filled);
  }
  const auto next = start < filled ? FindEventStart(text, start + 1) : std::nullopt;
  if (!next && filled < kLargestBlock && !input_ended_) {
    grow = true;
    return false;
  }
  const std::string_view what = !input_ended_ || next ? "a broken row" : "a row that is cut off";
  if (start < filled) damage_.Add(window_offset_ + start, what);
  const size_t keep_from = next.value_or(filled);
  window_offset_ += keep_from;
  std::memmove(memory, memory + keep_from, filled - keep_from);
  filled -= keep_from;
  return false;
}

bool TraceDocument::NextEvents(EventBlock& block) {
  size_t filled = window_.size() - window_at_;
  const size_t capacity = kFront + std::max(kBlockBytes, filled) + kBack;
  // A block that became large for one huge row returns to the usual size.
  if (block.capacity_ < capacity || block.capacity_ > 2 * capacity) {
    block.memory_ = std::make_unique_for_overwrite<char[]>(capacity);
    block.capacity_ = capacity;
  }
  window_offset_ += window_at_;
  std::memcpy(block.memory_.get() + kFront, window_.data() + window_at_, filled);
  window_.clear();
  window_at_ = 0;
  while (true) {
    filled = Fill(block, filled);
    const std::string_view text(block.memory_.get() + kFront, filled);
    const Cut cut = FindCut(text, input_ended_ ? MoreInput::kEnds : MoreInput::kFollows);
    if (cut.list_end) {
      if (cut.end != 0) return Emit(block, cut.end, filled);
      const size_t start = SkipSeparators(text.substr(0, *cut.list_end));
      if (start != *cut.list_end) damage_.Add(window_offset_ + start, "a broken row");
      TakeRest(block, *cut.list_end + 1, filled);
      state_ = State::kMembers;
      if (bare_list_) CheckTrailingText();
      return false;
    }
    if (cut.end != 0 && Emit(block, cut.end, filled)) return true;
    if (SkipSeparators(text) == filled && input_ended_) {
      truncated_ = true;
      state_ = State::kEnd;
      return false;
    }
    bool grow = false;
    if (Recover(block, filled, grow)) return true;
    if (grow) {
      const size_t larger = 2 * block.capacity_;
      auto memory = std::make_unique_for_overwrite<char[]>(larger);
      std::memcpy(memory.get(), block.memory_.get(), kFront + filled);
      block.memory_ = std::move(memory);
      block.capacity_ = larger;
    }
  }
}

}  // namespace lockstep::formats
