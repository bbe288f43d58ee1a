// Writes the Perfetto packets that a timeline of ranks needs (proto/perfetto_subset.proto names the fields).
#ifndef LOCKSTEP_FORMATS_PERFETTO_PERFETTO_PACKETS_H_
#define LOCKSTEP_FORMATS_PERFETTO_PERFETTO_PACKETS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/files/byte_sink.h"
#include "base/ids.h"
#include "base/time.h"
#include "formats/perfetto/proto_bytes.h"

namespace lockstep::formats {

// A track's number in the file; 0: none.
using TrackId = Id<struct TrackTag, uint64_t>;

// Joins slices in the order of their time. Ids are unique in the file.
struct Flow {
  uint64_t id = 0;    // 0: none
  bool last = false;  // the flow ends at this slice
};

// A named value shown with a slice. Names and slices' categories must be literals, because packets keep views
// of them.
struct Annotation {
  std::string_view name;
  std::string_view text;  // used when not empty
  uint64_t number = 0;
};

// The properties of a slice without its times.
struct Slice {
  TrackId track;
  NameId name;  // of the capture; its text is written once per sequence
  std::string_view category;
  std::span<const Flow> flows;
  std::span<const Annotation> annotations;
};

// Writes sequences of packets one after another. Each sequence interns its own texts, so sequences could be
// written separately and joined. One thread.
class PerfettoPackets {
 public:
  explicit PerfettoPackets(ByteSink& sink) : out_(sink) {}

  // Relates the trace's clock to the wall clock at `start`.
  void ClockSnapshot(JobTime start);

  // All slices until the next call belong to this sequence. Texts interned before are no longer known.
  // Numbers start at 1.
  void BeginSequence(uint32_t sequence);

  struct Process {
    int32_t pid = 0;  // unique in the file, because real pids of two hosts may be equal
    std::string_view name;
    int32_t sort_index = 0;
  };
  TrackId ProcessTrack(const Process& process);
  // Tracks of one parent are shown in the order of `order`.
  TrackId ChildTrack(TrackId parent, std::string_view name, int32_t order);

  // Adds a track of one value over time, in `unit`.
  TrackId CounterTrack(TrackId parent, std::string_view name, std::string_view unit, int32_t order);
  void Count(JobTime at, TrackId counter, double value);

  // `text` is the slice's name. Slices of one track nest or follow one another, and their begins and ends
  // come in order of time.
  void BeginSlice(JobTime at, const Slice& slice, std::string_view text);
  void EndSlice(JobTime at, TrackId track);

  absl::Status Finish() { return out_.Finish(); }

 private:
  // Numbers of the literals of one kind that the current sequence has used. There are few, so a linear search
  // finds them.
  class Interned {
   public:
    // `fresh`: the text is new, and must be written before its number is used.
    uint64_t Number(std::string_view text, bool& fresh);
    void Clear() { texts_.clear(); }

   private:
    std::vector<std::string_view> texts_;
  };

  struct NewText {
    uint32_t field;  // of the message of new texts
    uint64_t number;
    std::string_view text;
  };

  // more() writes further fields of the track descriptor.
  template <typename More>
  TrackId Child(TrackId parent, std::string_view name, int32_t order, More more);
  ProtoBytes::Open BeginPacket(JobTime at);
  void EndPacket(ProtoBytes::Open packet);
  // Return the text's number. A new text must be written before the packet's event.
  uint64_t NameNumber(NameId name, std::string_view text);
  uint64_t Intern(Interned& interned, uint32_t field, std::string_view text);
  void WriteNewTexts();
  void WriteAnnotation(const Annotation& annotation, uint64_t name_number);

  ProtoBytes out_;
  uint32_t sequence_ = 0;
  bool sequence_begun_ = false;
  uint64_t tracks_ = 0;
  std::vector<bool> named_;         // by NameId: written in this sequence
  std::vector<NewText> new_texts_;  // of the current packet
  Interned categories_;
  Interned annotation_names_;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_PERFETTO_PERFETTO_PACKETS_H_
