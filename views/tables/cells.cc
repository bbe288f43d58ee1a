#include "views/tables/cells.h"

#include <algorithm>

#include "base/json/utf8.h"

namespace lockstep::views {
namespace {

bool IsAscii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

bool IsUtf8(std::string_view text) {
  if (IsAscii(text)) return true;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string Repaired(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) out.push_back('?');
    out.append(text.substr(0, length));
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

}  // namespace

void Cells::Clear() {
  present_.clear();
  nulls_ = 0;
  numbers_.clear();
  doubles_.clear();
  texts_.clear();
  made_.clear();
  list_ends_.clear();
}

void Cells::Add(double value) {
  doubles_.push_back(std::isfinite(value) ? value : 0);
  std::isfinite(value) ? Present() : Null();
}

void Cells::AddText(std::string_view text) {
  if (!IsUtf8(text)) return AddOwnText(Repaired(text));
  texts_.push_back(text);
}

void Cells::AddOwnText(std::string&& text) {
  made_.push_back(IsUtf8(text) ? std::move(text) : Repaired(text));
  texts_.emplace_back(made_.back());
}

void Cells::Add(std::string_view text) {
  AddText(text);
  Present();
}

void Cells::Add(std::string&& text) {
  AddOwnText(std::move(text));
  Present();
}

void Cells::AddFrom(const Cells& from, size_t row, CellType type) {
  const bool list = !from.list_ends_.empty();
  const auto [first, end] = list ? from.ElementsOf(row) : Elements{row, row + 1};
  for (size_t i = first; i < end; ++i) {
    switch (type) {
      case CellType::kText:
        AddOwnText(std::string(from.texts_[i]));
        break;
      case CellType::kDouble:
        doubles_.push_back(from.doubles_[i]);
        break;
      default:
        numbers_.push_back(from.numbers_[i]);
    }
  }
  if (list) {
    EndList();
  } else {
    from.IsNull(row) ? Null() : Present();
  }
}

void Cells::EndList() {
  list_ends_.push_back(numbers_.size() + doubles_.size() + texts_.size());
  Present();
}

void Cells::Add(OwnedOrBorrowedText&& text) {
  if (text.borrowed) return Add(*text.borrowed);
  if (!text.made.empty()) return Add(std::move(text.made));
  texts_.emplace_back();
  Null();
}

}  // namespace lockstep::views
