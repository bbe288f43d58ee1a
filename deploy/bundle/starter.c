/* bin/<program> of the bundle: runs libexec/<program> with the loader and the libraries beside it.
 *
 * Static, so it starts whatever libc the host has. Nothing is put into the environment: a command that `lockstep run`
 * execs later sees exactly what the user had. Where it lies is taken from the kernel (AT_EXECFN, then /proc/self/exe), so
 * the bundle works from any folder, without /proc too.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

int main(int argc, char** argv) {
  char self[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n > 0) {
    self[n] = 0;
  } else if (!realpath((const char*)getauxval(AT_EXECFN), self)) {
    fprintf(stderr, "lockstep: cannot tell where this program lies: %s\n", strerror(errno));
    return 1;
  }
  /* The name it was called by picks the program: all starters are one file. */
  const char* called = (const char*)getauxval(AT_EXECFN);
  const char* slash = strrchr(called, '/');
  const char* name = slash ? slash + 1 : called;

  const char* root = dirname(dirname(self));
  char loader[PATH_MAX + 64], libraries[PATH_MAX + 64], program[PATH_MAX + 320];
  snprintf(loader, sizeof loader, "%s/lib/ld-linux-x86-64.so.2", root);
  snprintf(libraries, sizeof libraries, "%s/lib", root);
  snprintf(program, sizeof program, "%s/libexec/%s", root, name);

  char** args = calloc((size_t)argc + 8, sizeof *args);
  if (!args) return 1;
  int k = 0;
  args[k++] = loader;
  args[k++] = "--argv0";
  args[k++] = argv[0];
  args[k++] = "--library-path";
  args[k++] = libraries;
  args[k++] = program;
  for (int i = 1; i < argc; ++i) args[k++] = argv[i];
  execv(loader, args);
  fprintf(stderr, "lockstep: cannot start %s: %s\n", loader, strerror(errno));
  return 1;
}
