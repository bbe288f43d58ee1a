// The part of libcuda.so.1 in the simulated stack: its version, and its presence in /proc after CUDA's
// initialisation. libcudart loads it, as the real libcudart does. The device is in libcudart.
extern "C" __attribute__((visibility("default"))) int cuDriverGetVersion(int* version) {
  constexpr int kVersion = 13000, kSuccess = 0, kInvalidValue = 1;
  if (version == nullptr) return kInvalidValue;
  *version = kVersion;
  return kSuccess;
}
