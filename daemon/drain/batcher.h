// Batcher collects the records of one process in one capture into batches. The drain thread.
#ifndef LOCKSTEP_DAEMON_DRAIN_BATCHER_H_
#define LOCKSTEP_DAEMON_DRAIN_BATCHER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/drain/convert.h"
#include "daemon/drain/spool.h"
#include "wire/columns/columns.h"
#include "wire/ring/reader.h"

namespace lockstep::daemon {

struct BatchIdentity {
  std::string capture;
  ProcessId process;
  uint64_t incarnation = 0;
  uint64_t epoch = 0;
};

class Batcher {
 public:
  // Limit of string definitions per process and capture. Beyond it names are lost, so that memory stays
  // bounded.
  static constexpr size_t kMostDefinitionBytes = 8u << 20;

  explicit Batcher(BatchIdentity identity);

  void Add(const ring::RecordView& record);
  // Returns true if the batch is large enough to be sent.
  bool full() const { return full_; }
  bool empty() const { return rows_ == 0 && definitions_.empty(); }
  // Returns the rows since the last Flush, or nothing if there are none.
  std::optional<BatchData> Flush();

  uint64_t records() const { return records_; }
  // Number of lost records by kind: invalid records, and string definitions beyond the limit.
  const std::array<uint64_t, columns::kKinds>& refused() const { return refused_; }

 private:
  static constexpr uint32_t kRowsPerBatch = 16384;
  static constexpr size_t kDefinitionBytesPerBatch = 256u << 10;

  struct Definition {
    uint32_t id;
    size_t offset;  // into texts_
    size_t length;
  };
  void AddDefinition(const ring::RecordView& record);

  BatchIdentity identity_;
  std::vector<std::optional<columns::BlockBuilder>>
      builders_;  // by kind, created at the first record of the kind
  std::vector<Definition> definitions_;
  std::string texts_;
  uint32_t rows_ = 0;
  bool full_ = false;
  HostInterval span_;
  size_t definition_bytes_ = 0;  // total of the whole capture
  uint64_t next_sequence_ = 0;
  uint64_t records_ = 0;
  std::array<uint64_t, columns::kKinds> refused_{};
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_DRAIN_BATCHER_H_
