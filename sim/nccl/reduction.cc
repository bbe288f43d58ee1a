#include "sim/nccl/reduction.h"

#include <algorithm>
#include <iterator>

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

template <typename T>
T Combine(T a, T b, ncclRedOp_t op) {
  switch (op) {
    case ncclProd:
      return static_cast<T>(a * b);
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return static_cast<T>(a + b);
  }
}

template <typename T>
void Reduce(void* out, const std::vector<const void*>& in, size_t count, ncclRedOp_t op) {
  for (size_t i = 0; i < count; ++i) {
    T sum = static_cast<const T*>(in[0])[i];
    for (size_t r = 1; r < in.size(); ++r) sum = Combine(sum, static_cast<const T*>(in[r])[i], op);
    if (op == ncclAvg) sum = static_cast<T>(sum / static_cast<T>(in.size()));
    static_cast<T*>(out)[i] = sum;
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
bool CanReduce(ncclDataType_t type) {
  return (type >= ncclInt8 && type <= ncclUint64) || type == ncclFloat32 || type == ncclFloat64;
}

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
    case ncclFloat32:
      return Reduce<float>(out, in, count, op);
    case ncclFloat64:
      return Reduce<double>(out, in, count, op);
    default:
      return;
  }
}

}  // namespace lockstep::sim
