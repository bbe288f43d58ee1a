// A Chrome/Kineto trace as a stream: small values around a list of events, and the events in blocks.
//
// The document is an object with a "traceEvents" list at any place among its members, or a bare list. Memory
// is a few blocks whatever the size of the file; one thread reads (TraceDocument), another may parse the
// blocks it hands out.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_TRACE_DOCUMENT_H_
#define LOCKSTEP_AGGREGATOR_TRACE_TRACE_DOCUMENT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "formats/common/byte_source.h"

namespace lockstep::trace {

// Whole events as one JSON list: text() begins with '[' and ends with ']'. Reused from block to block.
class EventBlock {
 public:
  std::string_view text() const { return {memory_.get() + begin_, size_}; }
  // Bytes of memory from text()'s start on, padding included: what simdjson may read.
  size_t readable() const { return capacity_ - begin_; }
  char* data() { return memory_.get() + begin_; }
  // Place of text()'s first byte in the uncompressed file.
  uint64_t offset() const { return offset_; }

 private:
  friend class TraceDocument;
  std::unique_ptr<char[]> memory_;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t size_ = 0;
  uint64_t offset_ = 0;
};

// What could not be read. Counts everything, remembers where the first few were.
class DamageLog {
 public:
  void Add(uint64_t offset, std::string_view what);
  void Merge(const DamageLog& other);
  uint64_t count() const { return count_; }
  // One sentence part: "3 rows could not be read: <what> at byte 512, <what> at byte 700, …"; empty without
  // damage.
  std::string Describe() const;

 private:
  static constexpr size_t kPlaces = 3;
  uint64_t count_ = 0;
  std::string places_;
  size_t placed_ = 0;
};

class TraceDocument {
 public:
  explicit TraceDocument(ByteSource& source) : source_(source) {}
  TraceDocument(const TraceDocument&) = delete;
  TraceDocument& operator=(const TraceDocument&) = delete;

  // The next events, or false at the end of the document (or of what can be read of it).
  bool Next(EventBlock& block);

  // All below: after Next() returned false.
  // Was there a list of events? Without one the file is JSON of another kind, or no JSON at all.
  bool has_events() const { return has_events_; }
  bool is_json() const { return is_json_; }
  // Those members of the top-level object beside the events that a reader asks for, as JSON text; overlong
  // ones are empty.
  const std::map<std::string, std::string, std::less<>>& members() const { return members_; }
  const DamageLog& damage() const { return damage_; }
  // Did the text end before the document did?
  bool truncated() const { return truncated_; }
  // Place behind the last byte that was looked at.
  uint64_t bytes() const { return window_offset_ + window_at_; }

 private:
  enum class State { kStart, kMembers, kEvents, kEnd };

  bool NextEvents(EventBlock& block);
  size_t Fill(EventBlock& block, size_t filled);
  void TakeRest(const EventBlock& block, size_t from, size_t filled);
  bool Emit(EventBlock& block, size_t end, size_t filled);
  // Nothing in the block ends as an event should. Finds a single event or drops text up to the next one;
  // true: emitted.
  bool Recover(EventBlock& block, size_t& filled, bool& grow);

  void Start();
  void Members();
  // What became of a part of the document between the brackets of the top level.
  enum class Skipped { kWhole, kBroken, kEvents };
  Skipped Member();
  Skipped SkipText(std::string& into);
  Skipped SkipValue(std::string& into);
  bool AtEvents();
  bool AtListOfEvents();
  void LookBehindEnd();
  void GoOnWithEvents();
  bool FindEvents();
  std::string_view Ahead(size_t count);
  int Peek();
  int PeekNonBlank();
  char Take();

  ByteSource& source_;
  State state_ = State::kStart;
  bool bare_list_ = false;
  bool has_events_ = false;
  bool is_json_ = false;
  bool input_ended_ = false;
  bool truncated_ = false;
  // Bytes read and not used yet, outside of blocks.
  std::string window_;
  size_t window_at_ = 0;
  uint64_t window_offset_ = 0;  // of window_[0] in the file
  std::map<std::string, std::string, std::less<>> members_;
  DamageLog damage_;
};

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_TRACE_DOCUMENT_H_
