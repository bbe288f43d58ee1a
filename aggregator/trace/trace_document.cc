#include "aggregator/trace/trace_document.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aggregator/trace/event_splitter.h"

namespace lockstep::trace {
namespace {

// Small enough for a core's cache with the parser's index beside it, large enough that starting the parser
// costs nothing.
constexpr size_t kBlockBytes = 512 * 1024;
// One event may be that large before it is given up.
constexpr size_t kLargestBlock = 64 * 1024 * 1024;
// Room in front of the text for the '[' that the block adds.
constexpr size_t kFront = 64;
// Behind the text: the added ']' and what the scanner and simdjson read beyond.
constexpr size_t kBack = 128;
constexpr size_t kMemberWindow = 64 * 1024;
constexpr size_t kLongestMember = 1024 * 1024;

bool IsBlank(int c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

size_t SkipSeparators(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && (IsBlank(text[at]) || text[at] == ',')) ++at;
  return at;
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

bool TraceDocument::SkipText(std::string* into) {
  if (Peek() != '"') return false;
  ++window_at_;
  while (Peek() >= 0) {
    const char c = Take();
    if (c == '"') return true;
    if (into != nullptr && into->size() < kLongestMember) into->push_back(c);
    if (c == '\\' && Peek() >= 0) {
      const char escaped = Take();
      if (into != nullptr && into->size() < kLongestMember) into->push_back(escaped);
    }
  }
  return false;
}

bool TraceDocument::SkipValue(std::string* into) {
  int depth = 0;
  const auto keep = [into](std::string_view text) {
    if (into != nullptr && into->size() < kLongestMember) into->append(text);
  };
  while (true) {
    const int c = PeekNonBlank();
    if (c < 0) return false;
    if (c == '"') {
      keep("\"");
      if (!SkipText(into)) return false;
      keep("\"");
    } else if (depth == 0 && (c == ',' || c == '}' || c == ']')) {
      break;
    } else {
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      const char taken = Take();
      keep(std::string_view(&taken, 1));
      if (depth == 0 && (c == '}' || c == ']')) break;
    }
  }
  if (into != nullptr && into->size() >= kLongestMember) into->clear();
  return true;
}

bool TraceDocument::MemberName(std::string& name) {
  while (PeekNonBlank() == ',') ++window_at_;
  name.clear();
  if (!SkipText(&name) || PeekNonBlank() != ':') return false;
  ++window_at_;
  return PeekNonBlank() >= 0;
}

// The members are damaged before the events came: the events may still be whole.
bool TraceDocument::FindEventsMember() {
  constexpr std::string_view kName = "\"traceEvents\"";
  size_t matched = 0;
  while (Peek() >= 0) {
    const char c = Take();
    matched = c == kName[matched] ? matched + 1 : (c == kName[0] ? 1 : 0);
    if (matched < kName.size()) continue;
    matched = 0;
    if (PeekNonBlank() != ':') continue;
    ++window_at_;
    if (PeekNonBlank() == '[') return true;
  }
  return false;
}

void TraceDocument::Members() {
  std::string name;
  while (true) {
    while (PeekNonBlank() == ',') ++window_at_;
    if (Peek() == '}') {
      state_ = State::kEnd;
      return;
    }
    const uint64_t at = window_offset_ + window_at_;
    bool ok = MemberName(name);
    if (ok && name == "traceEvents" && Peek() == '[') {
      ++window_at_;
      has_events_ = true;
      state_ = State::kEvents;
      return;
    }
    std::string value;
    ok = ok && SkipValue(&value);
    if (ok) {
      members_.insert_or_assign(name, std::move(value));
      continue;
    }
    if (input_ended_) {
      truncated_ = true;
    } else {
      damage_.Add(at, "a broken member of the document");
    }
    if (!has_events_ && FindEventsMember()) {
      ++window_at_;
      has_events_ = true;
      state_ = State::kEvents;
    } else {
      state_ = State::kEnd;
    }
    return;
  }
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
  size_t capacity = std::max(block.capacity_, kFront + kBlockBytes + kBack);
  size_t filled = window_.size() - window_at_;
  capacity = std::max(capacity, kFront + filled + kBack);
  if (block.capacity_ < capacity) {
    block.memory_ = std::make_unique<char[]>(capacity);
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
      state_ = bare_list_ ? State::kEnd : State::kMembers;
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
      auto memory = std::make_unique<char[]>(larger);
      std::memcpy(memory.get(), block.memory_.get(), kFront + filled);
      block.memory_ = std::move(memory);
      block.capacity_ = larger;
    }
  }
}

}  // namespace lockstep::trace
