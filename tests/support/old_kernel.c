/* old_kernel COMMAND [ARG...]: COMMAND and what it starts find the system calls of Linux 4.18 and none that
 * came later.
 *
 * Tells whether anything new is called without something to fall back on. Static, so it runs in an empty
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

/* rseq, the last one of 4.18. The numbers after it were left out up to 424. */
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
