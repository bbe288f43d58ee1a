// The daemon's end of a segment, for tests of the client's records. It reads all records and keeps strings by
// id.
#ifndef LOCKSTEP_TESTS_ABI_SUPPORT_DAEMON_END_H_
#define LOCKSTEP_TESTS_ABI_SUPPORT_DAEMON_END_H_

#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "wire/ring/client_segment.h"
#include "wire/ring/reader.h"
#include "wire/ring/segment.h"

namespace lockstep::client {

class DaemonEnd {
 public:
  explicit DaemonEnd(const ring::SegmentOptions& options = {.main_ring_bytes = 1 << 20, .ring_count = 8}) {
    ok = ring::Segment::Create(options, &segment) == ring::SegmentError::kNone;
    for (uint32_t i = 0; ok && i < segment.ring_count(); ++i) readers.push_back(segment.Reader(i));
  }

  struct Record {
    uint32_t ring;
    ring::RecordHeader header;
    std::vector<std::byte> bytes;
    template <typename T>
    T as() const {
      T record;
      std::memcpy(&record, bytes.data(), sizeof record);
      return record;
    }
  };

  // Reads all rings. It stores strings in `strings` and returns the other records, ring by ring.
  std::vector<Record> Drain() {
    std::vector<Record> records;
    std::vector<std::byte> scratch(64 << 10);
    for (uint32_t i = 0; i < readers.size(); ++i) {
      while (readers[i].Read(scratch) == ring::ReadStatus::kRecords) {
        ring::RecordView view;
        while (readers[i].Next(&view)) {
          if (view.header.kind == ring::RecordKind::kString) {
            const auto text = view.text();
            strings[view.as<ring::StringRecord>().id] = std::string(text.begin(), text.end());
            ++string_records;
            continue;
          }
          records.push_back({i, view.header, {view.bytes.begin(), view.bytes.end()}});
        }
        readers[i].Free();
      }
    }
    return records;
  }

  template <typename T>
  std::vector<T> DrainOnly(ring::RecordKind kind) {
    std::vector<T> found;
    for (const Record& record : Drain()) {
      if (record.header.kind == kind) found.push_back(record.as<T>());
    }
    return found;
  }

  uint64_t Lost(ring::LossReason reason, ring::RecordKind kind) const {
    return ring::LostCounter(*segment.header(), static_cast<size_t>(reason), static_cast<size_t>(kind))
        .load();
  }
  uint64_t LostInAll() const { return ring::LossReader(segment.header()).Take().total(); }

  bool ok = false;
  ring::Segment segment;
  std::vector<ring::RingReader> readers;
  std::map<uint32_t, std::string> strings;
  uint64_t string_records = 0;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_TESTS_ABI_SUPPORT_DAEMON_END_H_
