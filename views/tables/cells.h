// Cells holds the cells of one column for a batch of rows.
#ifndef LOCKSTEP_VIEWS_TABLES_CELLS_H_
#define LOCKSTEP_VIEWS_TABLES_CELLS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace lockstep::views {

enum class CellType : uint8_t { kBool, kInt32, kInt64, kDouble, kText };

// A list has any number of elements of one CellType. Neither a list nor its elements are null.
enum class CellShape : uint8_t { kSingle, kList };

// A text that is borrowed from a longer-lived owner, or made for the cell. Null: it has neither.
struct OwnedOrBorrowedText {
  std::optional<std::string_view> borrowed;
  std::string made;
};

// The vectors hold one value per row, or the elements of all lists in the order of their rows. The value of a
// null is arbitrary. The column's type determines the vector: `numbers` for whole numbers and booleans,
// `doubles`, or `texts`. Cells are reused for the next batch. One thread.
class Cells {
 public:
  Cells() = default;
  // Texts of a copy would point into the original.
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;
  Cells(Cells&&) = default;
  Cells& operator=(Cells&&) = default;

  size_t size() const { return present_.size(); }
  bool IsNull(size_t row) const { return present_[row] == 0; }
  size_t nulls() const { return nulls_; }
  const std::vector<uint8_t>& present() const { return present_; }
  const std::vector<int64_t>& numbers() const { return numbers_; }
  const std::vector<double>& doubles() const { return doubles_; }
  // The texts are UTF-8. They are valid until Clear(), and only as long as their owners live.
  const std::vector<std::string_view>& texts() const { return texts_; }

  // The elements of a row's list have the places first <= place < end in the vectors.
  struct Elements {
    size_t first = 0, end = 0;
  };
  // Only for columns of lists.
  Elements ElementsOf(size_t row) const { return {row == 0 ? 0 : list_ends_[row - 1], list_ends_[row]}; }

  void Clear();

  template <typename T>
  requires std::is_integral_v<T>
  void Add(T value) { numbers_.push_back(static_cast<int64_t>(value)), Present(); }
  void Add(Nanos value) { Add(value.ns()); }
  template <ClockDomain D>
  void Add(Stamp<D> value) {
    Add(value.ns());
  }
  template <typename Tag, typename Rep>
  void Add(Id<Tag, Rep> value) {
    Add(value.value());
  }
  // NaN and infinity become null.
  void Add(double value);
  // Bytes that are not UTF-8 become question marks.
  void Add(std::string_view text);
  void Add(std::string&& text);
  void Add(OwnedOrBorrowedText&& text);

  template <typename T>
  void Add(const std::vector<T>& list) {
    for (const T& element : list) AddElement(element);
    EndList();
  }

  // Adds the cell of a row of `from`, whose column has this type. Texts are copied.
  void AddFrom(const Cells& from, size_t row, CellType type);

  template <typename T>
  void Add(std::optional<T>&& value) {
    if (value) return Add(*std::move(value));
    if constexpr (std::is_same_v<T, double>) {
      doubles_.push_back(0);
    } else if constexpr (std::is_convertible_v<T, std::string_view>) {
      texts_.emplace_back();
    } else {
      numbers_.push_back(0);
    }
    Null();
  }

 private:
  template <typename T>
  requires std::is_integral_v<T>
  void AddElement(T value) { numbers_.push_back(static_cast<int64_t>(value)); }
  template <typename Tag, typename Rep>
  void AddElement(Id<Tag, Rep> value) {
    AddElement(value.value());
  }
  void AddElement(const std::string& text) { AddOwnText(std::string(text)); }
  void EndList();

  void AddText(std::string_view text);
  void AddOwnText(std::string&& text);

  void Present() { present_.push_back(1); }
  void Null() { present_.push_back(0), ++nulls_; }

  std::vector<uint8_t> present_;
  size_t nulls_ = 0;
  std::vector<int64_t> numbers_;
  std::vector<double> doubles_;
  std::vector<std::string_view> texts_;
  std::deque<std::string> made_;   // texts that the cells own
  std::vector<size_t> list_ends_;  // of lists: for each row, the place after its last element
};

// The type of a column with cells of type T.
template <typename T>
struct CellTypeOf {
  static constexpr CellType kType = std::is_same_v<T, bool>                      ? CellType::kBool
                                    : std::is_same_v<T, double>                  ? CellType::kDouble
                                    : std::is_convertible_v<T, std::string_view> ? CellType::kText
                                    : std::is_integral_v<T> && (sizeof(T) < 4 || std::is_same_v<T, int32_t>)
                                        ? CellType::kInt32
                                        : CellType::kInt64;
  static constexpr CellShape kShape = CellShape::kSingle;
  static constexpr bool kMayBeNull = std::is_same_v<T, double>;
};
template <typename Tag, typename Rep>
struct CellTypeOf<Id<Tag, Rep>> : CellTypeOf<Rep> {};
template <>
struct CellTypeOf<OwnedOrBorrowedText> : CellTypeOf<std::string_view> {
  static constexpr bool kMayBeNull = true;
};
template <typename T>
struct CellTypeOf<std::optional<T>> {
  static constexpr CellType kType = CellTypeOf<T>::kType;
  static constexpr CellShape kShape = CellShape::kSingle;
  static constexpr bool kMayBeNull = true;
};
template <typename T>
struct CellTypeOf<std::vector<T>> {
  static constexpr CellType kType = CellTypeOf<T>::kType;
  static constexpr CellShape kShape = CellShape::kList;
  static constexpr bool kMayBeNull = false;
};

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_TABLES_CELLS_H_
