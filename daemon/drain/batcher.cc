#include "daemon/drain/batcher.h"

#include <algorithm>

namespace lockstep::daemon {

Batcher::Batcher(BatchIdentity identity) : identity_(std::move(identity)), builders_(columns::kKinds) {}

void Batcher::AddDefinition(const ring::RecordView& record) {
  const std::span<const char> text = record.text();
  if (definition_bytes_ + text.size() > kMostDefinitionBytes) {
    ++refused_[static_cast<size_t>(columns::Kind::kString)];
    return;
  }
  // An empty definition occupies memory too. If it did not count, a client could send any number of them.
  definition_bytes_ += text.size() + sizeof(Definition);
  definitions_.push_back({record.as<ring::StringRecord>().id, texts_.size(), text.size()});
  texts_.append(text.data(), text.size());
  full_ = full_ || texts_.size() >= kDefinitionBytesPerBatch;
}

void Batcher::Add(const ring::RecordView& record) {
  ++records_;
  if (record.header.kind == ring::RecordKind::kString) return AddDefinition(record);
  Row row;
  if (!Convert(record, row)) {
    ++refused_[static_cast<size_t>(record.header.kind)];
    return;
  }
  std::optional<columns::BlockBuilder>& builder = builders_[static_cast<size_t>(row.kind)];
  if (!builder) builder.emplace(row.kind);
  builder->Append(row.cells());
  ++rows_;
  if (row.span.end != HostTime()) {
    const bool first = span_.end == HostTime();
    span_.start = first ? row.span.start : std::min(span_.start, row.span.start);
    span_.end = std::max(span_.end, row.span.end);
  }
  full_ = full_ || builder->full() || rows_ >= kRowsPerBatch;
}

std::optional<BatchData> Batcher::Flush() {
  if (empty()) return std::nullopt;
  BatchData batch;
  batch.capture = identity_.capture;
  batch.process = identity_.process;
  batch.incarnation = identity_.incarnation;
  batch.span = span_;

  std::vector<columns::StringDefinition> strings;
  strings.reserve(definitions_.size());
  for (const Definition& d : definitions_)
    strings.push_back({d.id, std::string_view(texts_).substr(d.offset, d.length)});
  columns::EncodeStrings(identity_.epoch, strings, batch.blocks);
  batch.definition_bytes = batch.blocks.size();
  batch.definitions = definitions_.size();

  for (std::optional<columns::BlockBuilder>& builder : builders_) {
    if (!builder || builder->rows() == 0) continue;
    const uint32_t rows = builder->rows();
    batch.rows[static_cast<size_t>(builder->kind())] = rows;
    builder->Encode(identity_.epoch, next_sequence_, batch.blocks);
    next_sequence_ += rows;
  }
  definitions_.clear();
  texts_.clear();
  rows_ = 0;
  full_ = false;
  span_ = {};
  return batch;
}

}  // namespace lockstep::daemon
