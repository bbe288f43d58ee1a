/* A rank that forks children which use CUDA, as a loader worker does by mistake. Each child sets device
 * memory and exits. CUPTI's pointers to the tool's buffers survive the fork. The program ends with 1 if a
 * child was killed by a signal.
 *
 * usage: cuda_fork SECONDS */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int (*g_allocate)(void**, size_t);
static int (*g_set)(void*, int, size_t);
static int (*g_wait)(void);

static void Child(void* memory) {
  for (int i = 0; i < 20; ++i) g_set(memory, 0, 1 << 10);
  _exit(0);
}

int main(int argc, char** argv) {
  void* runtime = dlopen("libcudart.so.13", RTLD_NOW);
  if (argc != 2 || runtime == NULL)
    return fprintf(stderr, "cuda_fork: %s\n", runtime ? "usage: cuda_fork SECONDS" : dlerror()), 2;
  g_allocate = (int (*)(void**, size_t))dlsym(runtime, "cudaMalloc");
  g_set = (int (*)(void*, int, size_t))dlsym(runtime, "cudaMemset");
  g_wait = (int (*)(void))dlsym(runtime, "cudaDeviceSynchronize");
  void* memory = NULL;
  if (g_allocate == NULL || g_set == NULL || g_wait == NULL || g_allocate(&memory, 1 << 20) != 0) return 1;
  const struct timespec pause = {0, 5000000};
  int children = 0;
  for (time_t end = time(NULL) + atoi(argv[1]); time(NULL) < end;) {
    if (g_set(memory, 0, 1 << 20) != 0 || g_wait() != 0) return 1;
    const pid_t child = fork();
    if (child == 0) Child(memory);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return 1;
    if (WIFSIGNALED(status)) return fprintf(stderr, "cuda_fork: signal %d in a child\n", WTERMSIG(status)), 1;
    ++children;
    nanosleep(&pause, NULL);
  }
  printf("%d children\n", children);
  return 0;
}
