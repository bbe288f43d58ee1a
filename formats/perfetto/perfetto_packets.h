// Perfetto's packets, as far as a timeline of ranks needs them (proto/perfetto_subset.proto names the
// fields).
#ifndef LOCKSTEP_AGGREGATOR_TRACE_PERFETTO_PACKETS_H_
#define LOCKSTEP_AGGREGATOR_TRACE_PERFETTO_PACKETS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/files/byte_sink.h"
#include "base/ids.h"
#include "base/time.h"
#include "formats/perfetto/proto_bytes.h"

namespace lockstep::trace {

// A track's number in the file; 0 is none.
using TrackId = Id<struct TrackTag, uint64_t>;

// Joins slices in the order of their time; one number space for the file.
struct Flow {
  uint64_t id = 0;    // 0: none
  bool last = false;  // nothing of this flow comes later
};

// A named value shown with a slice. Names, and slices' categories, are literals: packets keep views of them.
struct Annotation {
  std::string_view name;
  std::string_view text;  // used when not empty
  uint64_t number = 0;
};

// What a slice is, beside its time.
struct Slice {
  TrackId track;
  NameId name;  // of the capture; the text is asked for once per sequence
  std::string_view category;
  std::span<const Flow> flows;
  std::span<const Annotation> annotations;
};

// Writes packets of one sequence after another. A sequence interns its own texts, so sequences could be
// written apart and joined. One thread.
class PerfettoPackets {
 public:
  explicit PerfettoPackets(store::ByteSink& sink) : out_(sink) {}

  // Ties the trace's clock to the wall clock at `start`.
  void ClockSnapshot(JobTime start);

  // All slices until the next call belong to this sequence; what was interned before is void. Numbers start
  // at 1.
  void BeginSequence(uint32_t sequence);

  struct Process {
    int32_t pid = 0;  // unique in the file: the real ones of two hosts collide
    std::string_view name;
    int32_t sort_index = 0;
  };
  TrackId ProcessTrack(const Process& process);
  // Tracks of one parent are shown by `order`.
  TrackId ChildTrack(TrackId parent, std::string_view name, int32_t order);

  // A track of one value over time, shown in percent.
  TrackId CounterTrack(TrackId parent, std::string_view name, std::string_view unit, int32_t order);
  void Count(JobTime at, TrackId counter, double value);

  // `text` is the slice's name. Slices of one track nest or follow one another; begins and ends of a track
  // come in order.
  void BeginSlice(JobTime at, const Slice& slice, std::string_view text);
  void EndSlice(JobTime at, TrackId track);

  absl::Status Finish() { return out_.Finish(); }

 private:
  // Numbers of the few literals of one kind that the current sequence has used.
  class Interned {
   public:
    // `fresh`: the text must be written before its number is used.
    uint64_t Number(std::string_view text, bool& fresh);
    void Clear() { texts_.clear(); }

   private:
    std::vector<std::string_view> texts_;
  };

  // more() writes further fields of the descriptor.
  template <typename More>
  TrackId Child(TrackId parent, std::string_view name, int32_t order, More more);
  ProtoBytes::Open BeginPacket(JobTime at);
  void EndPacket(ProtoBytes::Open packet);
  uint64_t NameNumber(NameId name, std::string_view text);
  uint64_t Intern(Interned& interned, uint32_t field, std::string_view text);
  void WriteText(uint32_t field, uint64_t number, std::string_view text);
  void WriteAnnotation(const Annotation& annotation, uint64_t name_number);

  ProtoBytes out_;
  uint32_t sequence_ = 0;
  bool sequence_begun_ = false;
  uint64_t tracks_ = 0;
  std::vector<bool> named_;  // by NameId: written in this sequence
  Interned categories_;
  Interned annotation_names_;
};

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_PERFETTO_PACKETS_H_
