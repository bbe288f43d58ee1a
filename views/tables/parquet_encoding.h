// How Parquet packs values into pages. Pure functions that append to `out`; facts from the public
// specification of the format.
#ifndef LOCKSTEP_AGGREGATOR_TABLES_PARQUET_ENCODING_H_
#define LOCKSTEP_AGGREGATOR_TABLES_PARQUET_ENCODING_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::tables {

// Least number of bits that `most` fits in.
int BitWidth(uint64_t most);

// Runs of one value and stretches of packed bits, by turns ("RLE"): definition levels and dictionary indices.
void AddHybrid(std::span<const uint32_t> values, int bit_width, std::string& out);

// Differences of neighbours, packed in miniblocks ("DELTA_BINARY_PACKED"): stamps and lengths that follow
// each other.
void AddDeltaPacked(std::span<const int64_t> values, std::string& out);

// "PLAIN": little-endian numbers, bits from the lowest, texts behind their length of four bytes.
void AddPlain32(std::span<const int64_t> values, std::string& out);
void AddPlainDoubles(std::span<const double> values, std::string& out);
void AddPlainBits(std::span<const int64_t> values, std::string& out);
void AddPlainText(std::string_view text, std::string& out);

void AddLittleEndian(uint64_t value, int bytes, std::string& out);

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_PARQUET_ENCODING_H_
