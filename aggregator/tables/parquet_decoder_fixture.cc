#include "aggregator/tables/parquet_decoder_fixture.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>

namespace lockstep::tables {
namespace {

// Ends decoding; the caller makes a test failure of it.
[[noreturn]] void Refuse(const std::string& why) { throw std::runtime_error(why); }

class Bytes {
 public:
  explicit Bytes(std::string_view text) : text_(text) {}
  std::string_view Take(size_t count) {
    if (count > text_.size()) Refuse("the bytes end early");
    const std::string_view taken = text_.substr(0, count);
    text_.remove_prefix(count);
    return taken;
  }
  uint8_t Byte() { return static_cast<uint8_t>(Take(1)[0]); }
  uint64_t Fixed(size_t count) {
    uint64_t value = 0;
    const std::string_view taken = Take(count);
    for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint8_t>(taken[i]);
    return value;
  }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint8_t byte = Byte();
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  }
  int64_t Signed() {
    const uint64_t value = Varint();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }
  bool empty() const { return text_.empty(); }
  size_t left() const { return text_.size(); }

 private:
  std::string_view text_;
};

// Any value of thrift's compact protocol.
struct Thrift {
  int64_t number = 0;
  std::string text;
  std::vector<Thrift> list;
  std::map<int, Thrift> fields;

  const Thrift& operator[](int field) const {
    const auto found = fields.find(field);
    if (found == fields.end()) Refuse("field " + std::to_string(field) + " is missing");
    return found->second;
  }
  bool Has(int field) const { return fields.count(field) != 0; }
};

Thrift ReadStruct(Bytes& in);

Thrift ReadValue(Bytes& in, int type) {
  Thrift value;
  switch (type) {
    case 1:
      value.number = 1;
      break;
    case 2:
      break;
    case 5:
    case 6:
      value.number = in.Signed();
      break;
    case 8:
      value.text = in.Take(in.Varint());
      break;
    case 9: {
      const uint8_t head = in.Byte();
      const uint64_t count = head >> 4 == 15 ? in.Varint() : head >> 4;
      for (uint64_t i = 0; i < count; ++i) value.list.push_back(ReadValue(in, head & 15));
      break;
    }
    case 12:
      return ReadStruct(in);
    default:
      Refuse("thrift type " + std::to_string(type));
  }
  return value;
}

Thrift ReadStruct(Bytes& in) {
  Thrift out;
  int field = 0;
  for (uint8_t head = in.Byte(); head != 0; head = in.Byte()) {
    field = head >> 4 == 0 ? static_cast<int>(in.Signed()) : field + (head >> 4);
    out.fields[field] = ReadValue(in, head & 15);
  }
  return out;
}

uint64_t Bits(std::string_view packed, size_t from, int width) {
  uint64_t value = 0;
  for (int bit = 0; bit < width; ++bit) {
    const size_t at = from + static_cast<size_t>(bit);
    if (at / 8 >= packed.size()) Refuse("packed bits end early");
    value |= uint64_t{static_cast<uint8_t>(packed[at / 8]) >> (at % 8) & 1u} << bit;
  }
  return value;
}

std::vector<uint32_t> ReadHybrid(Bytes in, int width, size_t count) {
  std::vector<uint32_t> out;
  while (out.size() < count) {
    const uint64_t head = in.Varint();
    if ((head & 1) == 0) {
      const auto value = static_cast<uint32_t>(in.Fixed(static_cast<size_t>(width + 7) / 8));
      out.insert(out.end(), head >> 1, value);
      continue;
    }
    const uint64_t values = (head >> 1) * 8;
    const std::string_view packed = in.Take(values * static_cast<uint64_t>(width) / 8);
    for (uint64_t i = 0; i < values && out.size() < count; ++i) {
      out.push_back(static_cast<uint32_t>(Bits(packed, i * static_cast<uint64_t>(width), width)));
    }
  }
  if (out.size() != count || !in.empty()) Refuse("levels or indices of another number than stated");
  return out;
}

std::vector<int64_t> ReadDelta(Bytes in, size_t count) {
  const uint64_t block = in.Varint();
  const uint64_t miniblocks = in.Varint();
  if (in.Varint() != count || block % 128 != 0 || block / miniblocks % 32 != 0)
    Refuse("a header of differences is wrong");
  std::vector<int64_t> out = {in.Signed()};
  while (out.size() < count) {
    const auto least = static_cast<uint64_t>(in.Signed());
    const std::string widths(in.Take(miniblocks));
    for (uint64_t m = 0; m < miniblocks && out.size() < count; ++m) {
      const int width = static_cast<uint8_t>(widths[m]);
      const uint64_t values = block / miniblocks;
      const std::string_view packed = in.Take(values * static_cast<uint64_t>(width) / 8);
      for (uint64_t i = 0; i < values && out.size() < count; ++i) {
        out.push_back(static_cast<int64_t>(static_cast<uint64_t>(out.back()) + least +
                                           Bits(packed, i * static_cast<uint64_t>(width), width)));
      }
    }
  }
  if (!in.empty()) Refuse("bytes behind the differences");
  out.resize(count);
  return out;
}

std::string DoubleText(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  char digits[32];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

class Chunk {
 public:
  Chunk(std::string_view file, const Thrift& meta, DecodedColumn& column)
      : file_(file), meta_(meta), column_(column) {}

  void Read() {
    const bool has_dictionary = meta_.Has(11);
    const auto start = static_cast<size_t>(has_dictionary ? meta_[11].number : meta_[9].number);
    Bytes in(file_.substr(start, static_cast<size_t>(meta_[7].number)));
    const size_t before = column_.cells.size();
    size_t uncompressed = 0;
    while (!in.empty()) {
      if (!has_dictionary || !dictionary_.empty() || uncompressed != 0) CheckDataOffset(start, in);
      const size_t left = in.left();
      const Thrift header = ReadStruct(in);
      uncompressed += left - in.left() + static_cast<size_t>(header[2].number);
      std::string page(static_cast<size_t>(header[2].number), '\0');
      const std::string_view packed = in.Take(static_cast<size_t>(header[3].number));
      if (ZSTD_decompress(page.data(), page.size(), packed.data(), packed.size()) != page.size())
        Refuse("a page does not decompress");
      header[1].number == 2 ? ReadDictionary(page, header[7]) : ReadPage(page, header[5]);
    }
    EXPECT_EQ(meta_[4].number, 6) << "zstd";
    EXPECT_EQ(column_.cells.size() - before, static_cast<size_t>(meta_[5].number));
    EXPECT_EQ(uncompressed, static_cast<size_t>(meta_[6].number));
    CheckStatistics(before);
  }

 private:
  void CheckDataOffset(size_t start, const Bytes& in) {
    if (data_seen_) return;
    data_seen_ = true;
    EXPECT_EQ(start + static_cast<size_t>(meta_[7].number) - in.left(), static_cast<size_t>(meta_[9].number));
  }

  void ReadDictionary(std::string_view page, const Thrift& header) {
    Bytes in(page);
    for (int64_t i = 0; i < header[1].number; ++i) dictionary_.emplace_back(in.Take(in.Fixed(4)));
    if (!in.empty()) Refuse("bytes behind the dictionary");
  }

  void ReadPage(std::string_view page, const Thrift& header) {
    Bytes in(page);
    const auto rows = static_cast<size_t>(header[1].number);
    std::vector<uint32_t> present(rows, 1);
    if (column_.optional) present = ReadHybrid(Bytes(in.Take(in.Fixed(4))), 1, rows);
    size_t values = 0;
    for (const uint32_t p : present) values += p;
    std::vector<std::string> texts = ReadValues(in, static_cast<int>(header[2].number), values);
    size_t next = 0;
    for (const uint32_t p : present)
      column_.cells.push_back(p == 0 ? std::nullopt : std::optional(texts[next++]));
  }

  std::vector<std::string> ReadValues(Bytes& in, int encoding, size_t values) {
    std::vector<std::string> out;
    const bool stated = [&] {
      for (const Thrift& e : meta_[2].list) {
        if (e.number == encoding) return true;
      }
      return false;
    }();
    EXPECT_TRUE(stated) << "encoding " << encoding << " of " << column_.name;
    if (encoding == 8) {
      const int width = in.Byte();
      if (values > 0) {
        for (const uint32_t i : ReadHybrid(in, width, values)) out.push_back(dictionary_.at(i));
      }
      return out;
    }
    if (encoding == 5) {
      if (values > 0) {
        for (const int64_t v : ReadDelta(in, values)) out.push_back(std::to_string(v));
      }
      return out;
    }
    if (encoding != 0) Refuse("encoding " + std::to_string(encoding));
    ReadPlain(in, values, out);
    if (!in.empty()) Refuse("bytes behind the values");
    return out;
  }

  void ReadPlain(Bytes& in, size_t values, std::vector<std::string>& out) const {
    const std::string_view bits = column_.type == 0 ? in.Take((values + 7) / 8) : std::string_view();
    for (size_t i = 0; i < values; ++i) {
      switch (column_.type) {
        case 0:
          out.emplace_back(Bits(bits, i, 1) != 0 ? "true" : "false");
          break;
        case 1:
          out.push_back(std::to_string(static_cast<int32_t>(in.Fixed(4))));
          break;
        case 2:
          out.push_back(std::to_string(static_cast<int64_t>(in.Fixed(8))));
          break;
        case 5:
          out.push_back(DoubleText(in.Fixed(8)));
          break;
        case 6:
          out.emplace_back(in.Take(in.Fixed(4)));
          break;
        default:
          Refuse("type " + std::to_string(column_.type));
      }
    }
  }

  void CheckStatistics(size_t before) const {
    const Thrift& statistics = meta_[12];
    int64_t nulls = 0;
    std::optional<int64_t> least, most;
    for (size_t i = before; i < column_.cells.size(); ++i) {
      if (!column_.cells[i]) {
        ++nulls;
      } else if (column_.type == 1 || column_.type == 2) {
        const int64_t value = std::stoll(*column_.cells[i]);
        least = std::min(least.value_or(value), value);
        most = std::max(most.value_or(value), value);
      }
    }
    EXPECT_EQ(statistics[3].number, nulls) << column_.name;
    EXPECT_EQ(statistics.Has(5), most.has_value());
    if (!most) return;
    const auto number = [&](const std::string& text) {
      const uint64_t value = Bytes(text).Fixed(column_.type == 1 ? 4 : 8);
      return column_.type == 1 ? static_cast<int32_t>(value) : static_cast<int64_t>(value);
    };
    EXPECT_EQ(number(statistics[5].text), *most) << column_.name;
    EXPECT_EQ(number(statistics[6].text), *least) << column_.name;
  }

  std::string_view file_;
  const Thrift& meta_;
  DecodedColumn& column_;
  std::vector<std::string> dictionary_;
  bool data_seen_ = false;
};

DecodedTable Decode(std::string_view file) {
  if (file.size() < 12 || file.substr(0, 4) != "PAR1" || file.substr(file.size() - 4) != "PAR1")
    Refuse("no Parquet file");
  const uint64_t length = Bytes(file.substr(file.size() - 8)).Fixed(4);
  if (length > file.size() - 12) Refuse("the footer is longer than the file");
  Bytes footer(file.substr(file.size() - 8 - length, length));
  const Thrift meta = ReadStruct(footer);
  EXPECT_TRUE(footer.empty());
  DecodedTable table;
  const std::vector<Thrift>& schema = meta[2].list;
  table.name = schema.at(0)[4].text;
  EXPECT_EQ(schema[0][5].number, static_cast<int64_t>(schema.size()) - 1);
  for (size_t i = 1; i < schema.size(); ++i) {
    table.columns.push_back({.name = schema[i][4].text,
                             .type = static_cast<int>(schema[i][1].number),
                             .optional = schema[i][3].number == 1,
                             .utf8 = schema[i].Has(10) && schema[i][10].Has(1) && schema[i][6].number == 0});
  }
  EXPECT_EQ(meta[7].list.size(), table.columns.size()) << "an order for each column";
  table.row_groups = meta[4].list.size();
  int64_t rows = 0;
  for (const Thrift& group : meta[4].list) {
    rows += group[3].number;
    EXPECT_EQ(group[1].list.size(), table.columns.size());
    for (size_t i = 0; i < table.columns.size(); ++i) {
      const Thrift& chunk = group[1].list.at(i)[3];
      EXPECT_EQ(chunk[3].list.at(0).text, table.columns[i].name);
      EXPECT_EQ(chunk[1].number, table.columns[i].type);
      EXPECT_EQ(chunk[5].number, group[3].number);
      Chunk(file, chunk, table.columns[i]).Read();
    }
  }
  EXPECT_EQ(meta[3].number, rows);
  return table;
}

}  // namespace

DecodedTable DecodeParquet(std::string_view file) {
  try {
    return Decode(file);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
    return {};
  }
}

}  // namespace lockstep::tables
