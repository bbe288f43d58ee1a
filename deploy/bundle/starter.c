/* bin/<program> of the bundle. It runs libexec/<program> with the bundle's loader and libraries.
 *
 * It is static, so it does not depend on the host's libc. The environment of the user's command does not
 * change: the starter adds nothing. The loader's variables name libraries for the host's libc, so they are
 * hidden from our loader by another name. The program first restores their names (base/program_start.h).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define HIDDEN "LOCKSTEP_STARTER_"

static int fail(const char* what, const char* path, const char* why) {
  fprintf(stderr, "lockstep: %s %s: %s\n", what, path, why);
  return 1;
}

/* Finds the path of the running file through the kernel. The bundle thus works in any folder, through links,
 * and without /proc. */
static int find_self(char* self, size_t size) {
  ssize_t n = readlink("/proc/self/exe", self, size - 1);
  if (n > 0) {
    self[n] = 0;
    return 0;
  }
  const char* called = (const char*)getauxval(AT_EXECFN);
  if (!called || !realpath(called, self))
    return fail("cannot find the path of this program:", called ? called : "", strerror(errno));
  return 0;
}

/* Removes the last component from `path` and returns it. */
static char* cut(char* path) {
  char* slash = strrchr(path, '/');
  if (!slash) return path;
  *slash = 0;
  return slash + 1;
}

static int hide_loader_variables(char** environment) {
  for (char** v = environment; *v; ++v) {
    if (strncmp(*v, "LD_", 3) != 0) continue;
    char* hidden = malloc(strlen(HIDDEN) + strlen(*v) + 1);
    if (!hidden) return fail("cannot start:", *v, strerror(errno));
    strcpy(hidden, HIDDEN);
    strcat(hidden, *v);
    *v = hidden;
  }
  return 0;
}

int main(int argc, char** argv) {
  char root[PATH_MAX], loader[PATH_MAX + 64], libraries[PATH_MAX + 64], program[2 * PATH_MAX + 16];
  if (find_self(root, sizeof root) != 0) return 1;
  /* All starters are one file under several names, and the name picks the program. */
  const char* name = cut(root);
  cut(root);
  if (strpbrk(root, ":;"))
    return fail("the bundle cannot run from", root,
                "its path contains : or ;, which separate paths for the loader; move it");
  snprintf(loader, sizeof loader, "%s/lib/ld-linux-x86-64.so.2", root);
  snprintf(libraries, sizeof libraries, "%s/lib", root);
  snprintf(program, sizeof program, "%s/libexec/%s", root, name);
  if (access(program, X_OK) != 0) return fail("cannot start", program, strerror(errno));

  char** args = calloc((size_t)argc + 8, sizeof *args);
  if (!args) return fail("cannot start", program, strerror(errno));
  int k = 0;
  args[k++] = loader;
  args[k++] = "--inhibit-cache"; /* it lists the host's libraries */
  args[k++] = "--library-path";
  args[k++] = libraries;
  args[k++] = "--argv0";
  args[k++] = argc > 0 ? argv[0] : program;
  args[k++] = program;
  for (int i = 1; i < argc; ++i) args[k++] = argv[i];
  if (hide_loader_variables(environ) != 0) return 1;
  execve(loader, args, environ);
  return fail("cannot start", loader, strerror(errno));
}
