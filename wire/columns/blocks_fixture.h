// Makes blocks of columns from a fuzzer's script. Most values are small, so that rows refer to each other.
#ifndef LOCKSTEP_WIRE_COLUMNS_BLOCKS_FIXTURE_H_
#define LOCKSTEP_WIRE_COLUMNS_BLOCKS_FIXTURE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fuzz_input_fixture.h"
#include "wire/columns/columns.h"

namespace lockstep::columns {

// A block of string definitions, or of rows of one kind. Times are `begin_ns` and up to 64 ms later.
inline std::string ScriptedBlock(FuzzInput& input, int64_t begin_ns) {
  std::string out;
  const auto kind = static_cast<Kind>(input.Below(kKinds - 1) + 1);
  const uint64_t epoch = input.Below(3);
  if (kind == Kind::kString) {
    std::vector<StringDefinition> strings(input.Below(4) + 1);
    for (StringDefinition& string : strings) string = {input.Number(), input.Text()};
    EncodeStrings(epoch, strings, out);
    return out;
  }
  const std::span<const Column> columns = Schema(kind);
  BlockBuilder builder(kind);
  std::vector<uint64_t> row(columns.size());
  for (size_t rows = input.Below(4) + 1; rows > 0; --rows) {
    for (uint64_t& cell : row) cell = input.Number();
    // The first column of most kinds is a time.
    row[0] = static_cast<uint64_t>(begin_ns) + input.Number<uint16_t>() * uint64_t{1000};
    if (input.Flag()) row[input.Below(row.size())] = input.Number<uint64_t>();
    builder.Append(row);
  }
  builder.Encode(epoch, 0, out);
  return out;
}

}  // namespace lockstep::columns

#endif  // LOCKSTEP_WIRE_COLUMNS_BLOCKS_FIXTURE_H_
