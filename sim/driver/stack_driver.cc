// What the simulated stack has of libcuda.so.1: that it is in the process once CUDA is up, which is how /proc
// shows it, and its version. libcudart loads it, as the real one does; the device lives in libcudart.
extern "C" __attribute__((visibility("default"))) int cuDriverGetVersion(int* version) {
  constexpr int kVersion = 13000, kSuccess = 0, kInvalidValue = 1;
  if (version == nullptr) return kInvalidValue;
  *version = kVersion;
  return kSuccess;
}
