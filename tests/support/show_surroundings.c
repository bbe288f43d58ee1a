/* Prints what a command inherits, line by line: pid, its own name, open descriptors, environment in order. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char** argv, char** environment) {
  char name[16] = {0};
  prctl(PR_GET_NAME, name);
  printf("pid %d\nname %s\n", (int)getpid(), name);
  for (int i = 0; i < argc; ++i) printf("argument %s\n", argv[i]);
  for (int fd = 0; fd < 1024; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) printf("descriptor %d\n", fd);
  }
  for (char** variable = environment; *variable; ++variable) printf("variable %s\n", *variable);
  return 42;
}
