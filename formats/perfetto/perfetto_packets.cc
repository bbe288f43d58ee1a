#include "formats/perfetto/perfetto_packets.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "base/json/utf8.h"

namespace lockstep::formats {
namespace {

// Field numbers, message by message.
namespace trace_field {
constexpr uint32_t kPacket = 1;
}
namespace packet_field {
constexpr uint32_t kClockSnapshot = 6, kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInterned = 12,
                   kFlags = 13, kTrackDescriptor = 60;
}
namespace clock_field {
constexpr uint32_t kClocks = 1, kId = 1, kTimestamp = 2;
}
namespace track_field {
constexpr uint32_t kUuid = 1, kName = 2, kProcess = 3, kParent = 5, kCounter = 8, kChildOrder = 11,
                   kSiblingRank = 12;
}
namespace process_field {
constexpr uint32_t kPid = 1, kSortIndex = 3, kName = 6;
}
namespace counter_field {
constexpr uint32_t kUnitName = 6;
}
namespace event_field {
constexpr uint32_t kCategories = 3, kAnnotations = 4, kType = 9, kNameIid = 10, kTrack = 11,
                   kDoubleValue = 44, kFlow = 47, kLastFlow = 48;
}
namespace interned_field {
constexpr uint32_t kCategories = 1, kNames = 2, kAnnotationNames = 3, kIid = 1, kText = 2;
}
namespace annotation_field {
constexpr uint32_t kNameIid = 1, kUint = 3, kText = 6;
}

constexpr uint64_t kSliceBegin = 1;
constexpr uint64_t kSliceEnd = 2;
constexpr uint64_t kCounterValue = 4;
constexpr uint64_t kStateCleared = 1;
constexpr uint64_t kNeedsState = 2;
constexpr uint64_t kClockRealtime = 1;
constexpr uint64_t kClockBoottime = 6;  // the clock that viewers assume for time stamps
constexpr uint64_t kExplicitOrder = 3;

constexpr size_t kMostAnnotations = 12;

// Time stamps are unsigned. No real stamp is before 1970.
uint64_t Stamp(JobTime at) { return static_cast<uint64_t>(std::max<int64_t>(0, at.ns())); }

// Viewers refuse a whole trace if one text is not UTF-8.
std::string ValidUtf8(std::string_view text) {
  std::string valid;
  for (text = text.substr(0, ProtoBytes::kLongestText); !text.empty();) {
    const size_t length = Utf8Length(text);
    valid.append(length == 0 ? std::string_view("?") : text.substr(0, length));
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return valid;
}

}  // namespace

uint64_t PerfettoPackets::Interned::Number(std::string_view text, bool& fresh) {
  size_t at = 0;
  while (at < texts_.size() && texts_[at] != text) ++at;
  fresh = at == texts_.size();
  if (fresh) texts_.push_back(text);
  return at + 1;
}

void PerfettoPackets::ClockSnapshot(JobTime start) {
  const auto packet = out_.BeginLong(trace_field::kPacket);
  const auto snapshot = out_.BeginShort(packet_field::kClockSnapshot);
  for (uint64_t clock : {kClockBoottime, kClockRealtime}) {
    const auto reading = out_.BeginShort(clock_field::kClocks);
    out_.Uint(clock_field::kId, clock);
    out_.Uint(clock_field::kTimestamp, Stamp(start));
    out_.End(reading);
  }
  out_.End(snapshot);
  out_.Uint(packet_field::kSequence, 1);
  out_.End(packet);
}

void PerfettoPackets::BeginSequence(uint32_t sequence) {
  sequence_ = sequence;
  sequence_begun_ = false;
  named_.clear();
  categories_.Clear();
  annotation_names_.Clear();
}

TrackId PerfettoPackets::ProcessTrack(const Process& process) {
  const TrackId track(++tracks_);
  const auto packet = out_.BeginLong(trace_field::kPacket);
  out_.Uint(packet_field::kSequence, sequence_);
  const auto descriptor = out_.BeginShort(packet_field::kTrackDescriptor);
  out_.Uint(track_field::kUuid, track.value());
  out_.Uint(track_field::kChildOrder, kExplicitOrder);
  const auto inner = out_.BeginShort(track_field::kProcess);
  out_.Int(process_field::kPid, process.pid);
  out_.Int(process_field::kSortIndex, process.sort_index);
  out_.Text(process_field::kName, ValidUtf8(process.name));
  out_.End(inner);
  out_.End(descriptor);
  EndPacket(packet);
  return track;
}

TrackId PerfettoPackets::ChildTrack(TrackId parent, std::string_view name, int32_t order) {
  return Child(parent, name, order, [] {});
}

TrackId PerfettoPackets::CounterTrack(TrackId parent, std::string_view name, std::string_view unit,
                                      int32_t order) {
  return Child(parent, name, order, [this, unit] {
    const auto counter = out_.BeginShort(track_field::kCounter);
    out_.Text(counter_field::kUnitName, unit);
    out_.End(counter);
  });
}

template <typename More>
TrackId PerfettoPackets::Child(TrackId parent, std::string_view name, int32_t order, More more) {
  const TrackId track(++tracks_);
  const auto packet = out_.BeginLong(trace_field::kPacket);
  out_.Uint(packet_field::kSequence, sequence_);
  const auto descriptor = out_.BeginShort(packet_field::kTrackDescriptor);
  out_.Uint(track_field::kUuid, track.value());
  out_.Uint(track_field::kParent, parent.value());
  out_.Text(track_field::kName, ValidUtf8(name));
  out_.Int(track_field::kSiblingRank, order);
  more();
  out_.End(descriptor);
  EndPacket(packet);
  return track;
}

void PerfettoPackets::Count(JobTime at, TrackId counter, double value) {
  const auto packet = BeginPacket(at);
  const auto event = out_.BeginShort(packet_field::kTrackEvent);
  out_.Uint(event_field::kType, kCounterValue);
  out_.Uint(event_field::kTrack, counter.value());
  out_.Fixed64(event_field::kDoubleValue, std::bit_cast<uint64_t>(value));
  out_.End(event);
  EndPacket(packet);
}

ProtoBytes::Open PerfettoPackets::BeginPacket(JobTime at) {
  const auto packet = out_.BeginLong(trace_field::kPacket);
  out_.Uint(packet_field::kTimestamp, Stamp(at));
  out_.Uint(packet_field::kSequence, sequence_);
  out_.Uint(packet_field::kFlags, sequence_begun_ ? kNeedsState : kStateCleared | kNeedsState);
  sequence_begun_ = true;
  return packet;
}

void PerfettoPackets::EndPacket(ProtoBytes::Open packet) {
  out_.End(packet);
  out_.FlushIfLarge();
}

// A packet has one message of new texts. Perfetto's reader keeps only the last one of several.
void PerfettoPackets::WriteNewTexts() {
  if (new_texts_.empty()) return;
  const auto interned = out_.BeginLong(packet_field::kInterned);
  for (const NewText& fresh : new_texts_) {
    const auto entry = out_.BeginShort(fresh.field);
    out_.Uint(interned_field::kIid, fresh.number);
    out_.Text(interned_field::kText, ValidUtf8(fresh.text));
    out_.End(entry);
  }
  out_.End(interned);
  new_texts_.clear();
}

uint64_t PerfettoPackets::NameNumber(NameId name, std::string_view text) {
  const uint64_t number = uint64_t{name.value()} + 1;
  if (name.value() >= named_.size()) named_.resize(name.value() + 1);
  if (!named_[name.value()]) new_texts_.push_back({interned_field::kNames, number, text});
  named_[name.value()] = true;
  return number;
}

uint64_t PerfettoPackets::Intern(Interned& interned, uint32_t field, std::string_view text) {
  bool fresh = false;
  const uint64_t number = interned.Number(text, fresh);
  if (fresh) new_texts_.push_back({field, number, text});
  return number;
}

void PerfettoPackets::WriteAnnotation(const Annotation& annotation, uint64_t name_number) {
  const auto entry = out_.BeginShort(event_field::kAnnotations);
  out_.Uint(annotation_field::kNameIid, name_number);
  if (annotation.text.empty()) {
    out_.Uint(annotation_field::kUint, annotation.number);
  } else {
    out_.Text(annotation_field::kText, ValidUtf8(annotation.text.substr(0, 512)));
  }
  out_.End(entry);
}

void PerfettoPackets::BeginSlice(JobTime at, const Slice& slice, std::string_view text) {
  const auto packet = BeginPacket(at);
  const uint64_t name = NameNumber(slice.name, text);
  const uint64_t category = Intern(categories_, interned_field::kCategories, slice.category);
  std::array<uint64_t, kMostAnnotations> annotation_names;
  const auto annotations = slice.annotations.first(std::min(slice.annotations.size(), kMostAnnotations));
  for (size_t i = 0; i < annotations.size(); ++i) {
    annotation_names[i] = Intern(annotation_names_, interned_field::kAnnotationNames, annotations[i].name);
  }
  WriteNewTexts();
  const auto event = out_.BeginShort(packet_field::kTrackEvent);
  out_.Uint(event_field::kType, kSliceBegin);
  out_.Uint(event_field::kTrack, slice.track.value());
  out_.Uint(event_field::kNameIid, name);
  out_.Uint(event_field::kCategories, category);
  for (const Flow& flow : slice.flows) {
    if (flow.id != 0) out_.Fixed64(flow.last ? event_field::kLastFlow : event_field::kFlow, flow.id);
  }
  for (size_t i = 0; i < annotations.size(); ++i) WriteAnnotation(annotations[i], annotation_names[i]);
  out_.End(event);
  EndPacket(packet);
}

void PerfettoPackets::EndSlice(JobTime at, TrackId track) {
  const auto packet = BeginPacket(at);
  const auto event = out_.BeginShort(packet_field::kTrackEvent);
  out_.Uint(event_field::kType, kSliceEnd);
  out_.Uint(event_field::kTrack, track.value());
  out_.End(event);
  EndPacket(packet);
}

}  // namespace lockstep::formats
