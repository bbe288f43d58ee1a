#include "sim/nccl/reduction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

namespace lockstep::sim {
namespace {

using namespace foreign::ncclapi;

struct TypeRow {
  ncclDataType_t type;
  size_t bytes;
  const char* name;
  const char* in_kernels;
};
constexpr TypeRow kTypes[] = {
    {ncclInt8, 1, "ncclInt8", "u8"},
    {ncclUint8, 1, "ncclUint8", "u8"},
    {ncclInt32, 4, "ncclInt32", "u32"},
    {ncclUint32, 4, "ncclUint32", "u32"},
    {ncclInt64, 8, "ncclInt64", "u64"},
    {ncclUint64, 8, "ncclUint64", "u64"},
    {ncclFloat16, 2, "ncclFloat16", "f16"},
    {ncclFloat32, 4, "ncclFloat32", "f32"},
    {ncclFloat64, 8, "ncclFloat64", "f64"},
    {ncclBfloat16, 2, "ncclBfloat16", "bf16"},
    {ncclFloat8e4m3, 1, "ncclFloat8e4m3", "f8e4m3"},
    {ncclFloat8e5m2, 1, "ncclFloat8e5m2", "f8e5m2"},
};

const TypeRow* RowOf(ncclDataType_t type) {
  const auto i = static_cast<size_t>(type);
  return i < std::size(kTypes) ? &kTypes[i] : nullptr;
}

struct Bfloat16 {
  uint16_t bits;
  float Wide() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
  static Bfloat16 Of(float f) {
    const auto u = std::bit_cast<uint32_t>(f);
    return {static_cast<uint16_t>((u + 0x7FFF + (u >> 16 & 1)) >> 16)};
  }
};

struct Half {
  uint16_t bits;
  float Wide() const {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float f = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
              : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                              : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
    return bits >> 15 ? -f : f;
  }
  // Rounds to the nearest even, like the hardware.
  static Half Of(float f) {
    const auto sign = static_cast<uint16_t>(std::signbit(f) ? 0x8000 : 0);
    const float a = std::fabs(f);
    if (std::isnan(f)) return {static_cast<uint16_t>(sign | 0x7E00)};
    if (a >= 65520.0f) return {static_cast<uint16_t>(sign | 0x7C00)};
    int exponent = 0;
    std::frexp(a, &exponent);
    const int step = std::max(exponent - 11, -24);
    const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(a, -step)));
    if (step == -24) return {static_cast<uint16_t>(sign | steps)};
    return {static_cast<uint16_t>(sign + (static_cast<uint32_t>(exponent + 13) << 10) + steps)};
  }
};

template <typename T>
auto Wide(T v) {
  if constexpr (std::is_class_v<T>)
    return v.Wide();
  else
    return v;
}
template <typename T, typename W>
T Narrow(W w) {
  if constexpr (std::is_class_v<T>)
    return T::Of(w);
  else
    return static_cast<T>(w);
}

template <typename W>
W Combine(W a, W b, ncclRedOp_t op) {
  switch (op) {
    case ncclProd:
      return static_cast<W>(a * b);
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return static_cast<W>(a + b);
  }
}

template <typename T>
void Reduce(void* out, const std::vector<const void*>& in, size_t count, ncclRedOp_t op) {
  for (size_t i = 0; i < count; ++i) {
    auto sum = Wide(static_cast<const T*>(in[0])[i]);
    for (size_t r = 1; r < in.size(); ++r) sum = Combine(sum, Wide(static_cast<const T*>(in[r])[i]), op);
    if (op == ncclAvg) sum = static_cast<decltype(sum)>(sum / static_cast<decltype(sum)>(in.size()));
    static_cast<T*>(out)[i] = Narrow<T>(sum);
  }
}

}  // namespace

size_t ElementBytes(ncclDataType_t type) {
  const TypeRow* row = RowOf(type);
  return row == nullptr ? 0 : row->bytes;
}
const char* TypeName(ncclDataType_t type) {
  const TypeRow* row = RowOf(type);
  return row == nullptr ? "Unknown" : row->name;
}
const char* TypeNameInKernels(ncclDataType_t type) {
  const TypeRow* row = RowOf(type);
  return row == nullptr ? "u8" : row->in_kernels;
}
bool CanReduce(ncclDataType_t type) { return type >= ncclInt8 && type <= ncclBfloat16; }

void ReduceInto(void* out, const std::vector<const void*>& in, size_t count, ncclDataType_t type,
                ncclRedOp_t op) {
  switch (type) {
    case ncclInt8:
      return Reduce<int8_t>(out, in, count, op);
    case ncclUint8:
      return Reduce<uint8_t>(out, in, count, op);
    case ncclInt32:
      return Reduce<int32_t>(out, in, count, op);
    case ncclUint32:
      return Reduce<uint32_t>(out, in, count, op);
    case ncclInt64:
      return Reduce<int64_t>(out, in, count, op);
    case ncclUint64:
      return Reduce<uint64_t>(out, in, count, op);
    case ncclFloat16:
      return Reduce<Half>(out, in, count, op);
    case ncclFloat32:
      return Reduce<float>(out, in, count, op);
    case ncclFloat64:
      return Reduce<double>(out, in, count, op);
    case ncclBfloat16:
      return Reduce<Bfloat16>(out, in, count, op);
    default:
      return;
  }
}

}  // namespace lockstep::sim
