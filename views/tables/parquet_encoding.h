// Encodes values for Parquet's pages. The functions are pure and append to `out`. Source: the public
// specification of the format.
#ifndef LOCKSTEP_VIEWS_TABLES_PARQUET_ENCODING_H_
#define LOCKSTEP_VIEWS_TABLES_PARQUET_ENCODING_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::views {

// Returns the least number of bits that can hold `most`.
int BitWidth(uint64_t most);

// Runs of one value, alternating with bit-packed parts ("RLE"). Used for definition levels and dictionary
// indices.
void AddHybrid(std::span<const uint32_t> values, int bit_width, std::string& out);

// Differences of neighbours, packed in miniblocks ("DELTA_BINARY_PACKED"). Used for columns of INT64, such as
// consecutive stamps.
void AddDeltaPacked(std::span<const int64_t> values, std::string& out);

// "PLAIN": little-endian numbers, bits from the lowest one, texts after a length of four bytes.
void AddPlain32(std::span<const int64_t> values, std::string& out);
void AddPlainDoubles(std::span<const double> values, std::string& out);
void AddPlainBits(std::span<const int64_t> values, std::string& out);
void AddPlainText(std::string_view text, std::string& out);

void AddLittleEndian(uint64_t value, int bytes, std::string& out);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_TABLES_PARQUET_ENCODING_H_
