// TraceDocument reads a Chrome/Kineto trace as a stream: small members around a list of events, and the
// events in blocks.
//
// The document is an object with a "traceEvents" list at any place among its members, or a bare list. Memory
// is a few blocks, for a file of any size. One thread reads (TraceDocument); another may parse the blocks.
#ifndef LOCKSTEP_FORMATS_KINETO_TRACE_DOCUMENT_H_
#define LOCKSTEP_FORMATS_KINETO_TRACE_DOCUMENT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "formats/common/byte_source.h"

namespace lockstep::formats {

// Holds whole events as one JSON list: text() begins with '[' and ends with ']'. A block can be filled again.
class EventBlock {
 public:
  std::string_view text() const { return {memory_.get() + begin_, size_}; }
  // Bytes of memory from the start of text(), with the padding that simdjson may read.
  size_t readable() const { return capacity_ - begin_; }
  char* data() { return memory_.get() + begin_; }
  // Position of the first byte of text() in the uncompressed file.
  uint64_t offset() const { return offset_; }

 private:
  friend class TraceDocument;
  std::unique_ptr<char[]> memory_;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t size_ = 0;
  uint64_t offset_ = 0;
};

// Counts the parts of a document that could not be read, and keeps the positions of the first few.
class DamageLog {
 public:
  void Add(uint64_t offset, std::string_view what);
  void Merge(const DamageLog& other);
  uint64_t count() const { return count_; }
  // Returns a part of a sentence: "3 rows could not be read: <what> at byte 512, <what> at byte 700, …".
  // Empty: there was no damage.
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

  // Fills `block` with the next events. False: the document has no further readable events.
  bool Next(EventBlock& block);

  // The functions below are valid after Next() returned false. Without a list of events, the file is other
  // JSON, or not JSON at all.
  bool has_events() const { return has_events_; }
  bool is_json() const { return is_json_; }
  // The members of the top-level object that a reader uses, as JSON text. A member that is too long is empty.
  const std::map<std::string, std::string, std::less<>>& members() const { return members_; }
  const DamageLog& damage() const { return damage_; }
  // True if the text ended before the document did.
  bool truncated() const { return truncated_; }
  // Position after the last byte that was read.
  uint64_t bytes() const { return window_offset_ + window_at_; }

 private:
  enum class State { kStart, kMembers, kEvents, kEnd };

  bool NextEvents(EventBlock& block);
  size_t Fill(EventBlock& block, size_t filled);
  void TakeRest(const EventBlock& block, size_t from, size_t filled);
  bool Emit(EventBlock& block, size_t end, size_t filled);
  // Called if no text in the block ends as an event should. Finds a single event, or drops text up to the
  // next one. True: the block holds an event.
  bool Recover(EventBlock& block, size_t& filled, bool& grow);

  void Start();
  void Members();
  // Result of reading a part of the document outside the events. kWhole: read to its end; kBroken: damaged or
  // truncated; kEvents: the list of events begins.
  enum class Skipped { kWhole, kBroken, kEvents };
  Skipped Member();
  Skipped SkipText(std::string& into);
  Skipped SkipValue(std::string& into);
  bool AtEvents();
  bool AtListOfEvents();
  void CheckTrailingText();
  void ResumeEvents();
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
  // Bytes read from the source that are not in a block.
  std::string window_;
  size_t window_at_ = 0;
  uint64_t window_offset_ = 0;  // of window_[0] in the file
  std::map<std::string, std::string, std::less<>> members_;
  DamageLog damage_;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_TRACE_DOCUMENT_H_
