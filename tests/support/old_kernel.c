/* old_kernel COMMAND [ARG...]: limits COMMAND and its child processes to the system calls of Linux 4.18.
 *
 * It shows whether a program calls newer ones without a fallback. It is static, so that it runs in an empty
 * chroot.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* rseq, the last system call of 4.18. The numbers between it and 424 are unused. */
enum { kLast = 334 };

int main(int argc, char** argv) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, kLast, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (argc < 2) {
    fprintf(stderr, "usage: old_kernel COMMAND [ARG...]\n");
    return 2;
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    fprintf(stderr, "old_kernel: this kernel lets no filter be set: %s\n", strerror(errno));
    return 125;
  }
  execv(argv[1], argv + 1);
  fprintf(stderr, "old_kernel: %s: %s\n", argv[1], strerror(errno));
  return 127;
}
