/* A rank without Python. It works on the device for SECONDS, with the CUDA runtime that the loader finds.
 *
 * usage: cuda_loop SECONDS */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char** argv) {
  void* runtime = dlopen("libcudart.so.13", RTLD_NOW);
  if (argc != 2 || runtime == NULL)
    return fprintf(stderr, "cuda_loop: %s\n", runtime ? "usage: cuda_loop SECONDS" : dlerror()), 2;
  int (*allocate)(void**, size_t) = (int (*)(void**, size_t))dlsym(runtime, "cudaMalloc");
  int (*set)(void*, int, size_t) = (int (*)(void*, int, size_t))dlsym(runtime, "cudaMemset");
  int (*wait)(void) = (int (*)(void))dlsym(runtime, "cudaDeviceSynchronize");
  void* memory = NULL;
  if (allocate == NULL || set == NULL || wait == NULL || allocate(&memory, 1 << 20) != 0) return 1;
  const struct timespec pause = {0, 5000000};
  for (time_t end = time(NULL) + atoi(argv[1]); time(NULL) < end;) {
    if (set(memory, 0, 1 << 20) != 0 || wait() != 0) return 1;
    nanosleep(&pause, NULL);
  }
  return 0;
}
