// Lockstep in Slurm: `srun --lockstep`, `sbatch --lockstep`, `salloc --lockstep`. See docs/slurm.md.
//
// srun and sbatch load the plugin for its option. slurmstepd loads it on each node, where it runs the
// installed `lockstep` twice. As root, it reports to the node's daemon the step's user, and that the step's
// processes descend from this slurmstepd. In each task, as the user and directly before the program, it sets
// the variables of `lockstep run`. The step's end needs no hook, because the daemon sees slurmstepd end, also
// when it is killed.
//
// The plugin neither fails nor delays a job. Every program that it runs is killed after kMostMs. An error is
// only a line in slurmd's log, or in the task's stderr.
//
// The line of plugstack.conf, with its options:
//   optional /opt/lockstep/lib/spank_lockstep.so [prefix=/opt/lockstep]
//     [daemon=/run/lockstep/client.sock] [default=on]
//
// It uses only calls and items that Slurm has had since 20.02. slurmstepd has threads, so between fork and
// exec there are only system calls.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

SPANK_PLUGIN(lockstep, 1);

enum {
  kMostMs = 1500,
  kMostWords = 32,
  kNumberBytes = 16,
  kPathBytes = 1024,
  kSaidBytes = 64 * 1024,
  kFirstSpecialStep = 0x7fffffff,  // batch script, interactive and extern steps have higher numbers
};

static const uint32_t kNoNumber = 0xfffffffe;  // NO_VAL in slurm.h; INFINITE is larger

static const char kOptionName[] = "lockstep";
static const char kExport[] = "export ";

static struct {
  char program[kPathBytes];
  char daemon[kPathBytes];
  char mode[16];  // empty: no effect on the job
} settings = {"/opt/lockstep/bin/lockstep", "", ""};

static bool is_mode(const char* text) {
  return !strcmp(text, "auto") || !strcmp(text, "cupti") || !strcmp(text, "nccl");
}

static int on_option(int value, const char* argument, int remote) {
  (void)value, (void)remote;
  // From sbatch to the srun in its script, Slurm passes an option without a value as this word.
  const bool no_value = argument == NULL || argument[0] == '\0' || !strcmp(argument, "(null)");
  const char* mode = no_value ? "auto" : argument;
  if (!strcmp(mode, "off")) {
    settings.mode[0] = '\0';
    return ESPANK_SUCCESS;
  }
  if (!is_mode(mode)) {
    slurm_error("--lockstep=%s is not known: give auto, cupti, nccl or off", mode);
    return ESPANK_BAD_ARG;
  }
  snprintf(settings.mode, sizeof settings.mode, "%s", mode);
  return ESPANK_SUCCESS;
}

static struct spank_option option = {
    .name = (char*)kOptionName,
    .arginfo = "[auto|cupti|nccl|off]",
    .usage = "let Lockstep capture this job's GPU processes (lockstep trace --job ID)",
    .has_arg = 2,  // optional
    .val = 0,
    .cb = on_option,
};

static bool starts(const char* text, const char* with) { return !strncmp(text, with, strlen(with)); }

static void read_arguments(int count, char** arguments) {
  for (int i = 0; i < count; ++i) {
    const char* value = strchr(arguments[i], '=');
    value = value == NULL ? "" : value + 1;
    if (starts(arguments[i], "prefix=")) {
      snprintf(settings.program, sizeof settings.program, "%s/bin/lockstep", value);
    } else if (starts(arguments[i], "daemon=")) {
      snprintf(settings.daemon, sizeof settings.daemon, "%s", value);
    } else if (starts(arguments[i], "default=")) {
      snprintf(settings.mode, sizeof settings.mode, "%s",
               !strcmp(value, "on") ? "auto"
               : is_mode(value)     ? value
                                    : "");
    } else {
      slurm_error("lockstep: unknown argument %s in plugstack.conf: use prefix=, daemon= or default=",
                  arguments[i]);
    }
  }
}

int slurm_spank_init(spank_t spank, int count, char** arguments) {
  read_arguments(count, arguments);
  const spank_context_t context = spank_context();
  if (context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR || context == S_CTX_REMOTE) {
    spank_option_register(spank, &option);
  }
  return ESPANK_SUCCESS;
}

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// Reads a program's output from a descriptor, at most `capacity - 1` bytes, until the program closes it or
// until the time `until`. Returns false at that time.
static bool read_said(int fd, char* said, size_t capacity, int64_t until) {
  size_t length = 0;
  bool ended = false;
  while (!ended && length + 1 < capacity) {
    const int64_t left = until - now_ms();
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    const int ready = left <= 0 ? 0 : poll(&wait, 1, (int)left);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    const ssize_t n = read(fd, said + length, capacity - 1 - length);
    if (n < 0 && errno == EINTR) continue;
    if (n > 0) length += (size_t)n;
    ended = n <= 0;
  }
  said[length] = '\0';
  return ended || length + 1 >= capacity;
}

enum hear { kHearStdout, kHearStderr, kHearStdoutOnly };

_Noreturn static void become(const char* const* words, char* const* environment, int out, enum hear hear) {
  const int null = open("/dev/null", O_RDWR);
  dup2(null, STDIN_FILENO);
  dup2(hear == kHearStderr ? null : out, STDOUT_FILENO);
  if (hear != kHearStdout) dup2(hear == kHearStderr ? out : null, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execve(words[0], (char* const*)words, environment);
  _exit(127);
}

// Runs words[0] to its end and keeps its output. Returns false if it could not be run, failed, or was killed
// after kMostMs.
static bool run(const char* const* words, char* const* environment, enum hear hear, char* said,
                size_t capacity) {
  said[0] = '\0';
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  const int64_t until = now_ms() + kMostMs;
  const pid_t child = fork();
  if (child == 0) become(words, environment, ends[1], hear);
  close(ends[1]);
  const bool in_time = child > 0 && read_said(ends[0], said, capacity, until);
  close(ends[0]);
  if (child < 0) return false;
  if (!in_time) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return in_time;  // slurmstepd has reaped it
  }
  return in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct words {
  const char* word[kMostWords];
  char number[kMostWords][kNumberBytes];
  int count;
};

static void add(struct words* words, const char* word) {
  if (words->count + 1 < kMostWords) words->word[words->count++] = word;
}

static void add_number(struct words* words, const char* name, uint32_t number) {
  if (words->count + 2 >= kMostWords) return;
  add(words, name);
  char* text = words->number[words->count];
  snprintf(text, kNumberBytes, "%u", number);
  add(words, text);
}

static void add_daemon(struct words* words) {
  if (settings.daemon[0] == '\0') return;
  add(words, "--daemon");
  add(words, settings.daemon);
}

static uint32_t item(spank_t spank, spank_item_t which, uint32_t otherwise) {
  uint32_t value = 0;
  return spank_get_item(spank, which, &value) == ESPANK_SUCCESS ? value : otherwise;
}

// The number of the first component of a heterogeneous step, by which the whole step is known. srun sets it
// in every component. 0 if the step is not heterogeneous.
static uint32_t het_leader(spank_t spank) {
  static const char* const kNames[] = {"SLURM_JOB_ID_HET_GROUP_0", "SLURM_JOB_ID_PACK_GROUP_0"};
  char value[kNumberBytes];
  for (size_t i = 0; i < sizeof kNames / sizeof kNames[0]; ++i) {
    if (spank_getenv(spank, kNames[i], value, sizeof value) == ESPANK_SUCCESS)
      return (uint32_t)strtoul(value, NULL, 10);
  }
  return 0;
}

static void log_first_line(const char* what, char* said) {
  said[strcspn(said, "\n")] = '\0';
  slurm_info("lockstep: %s: %s", what,
             said[0] != '\0' ? said : "it could not be run, or did not answer in time");
}

// Runs in slurmstepd, as root, before any task starts.
static void notify_daemon(spank_t spank) {
  static char* const kNoEnvironment[] = {"PATH=/usr/bin:/bin", NULL};
  uid_t uid = 0;
  if (spank_get_item(spank, S_JOB_UID, &uid) != ESPANK_SUCCESS) return;
  struct words words = {.count = 0};
  add(&words, settings.program);
  add(&words, "job");
  add(&words, "begin");
  add_daemon(&words);
  add_number(&words, "--id", item(spank, S_JOB_ID, 0));
  add_number(&words, "--uid", (uint32_t)uid);
  add_number(&words, "--pid", (uint32_t)getpid());
  add_number(&words, "--tasks", item(spank, S_JOB_TOTAL_TASK_COUNT, 0));
  const uint32_t step = item(spank, S_JOB_STEPID, UINT32_MAX);
  if (step < kFirstSpecialStep) add_number(&words, "--step", step);
  // For a job outside an array, Slurm gives 0 or NO_VAL as the first, and NO_VAL as the second, depending on
  // how the step was started.
  const uint32_t array = item(spank, S_JOB_ARRAY_ID, 0), task = item(spank, S_JOB_ARRAY_TASK_ID, UINT32_MAX);
  if (array != 0 && array < kNoNumber && task < kNoNumber) {
    add_number(&words, "--array-job", array);
    add_number(&words, "--array-task", task);
  }
  const uint32_t leader = het_leader(spank);
  if (leader != 0) add_number(&words, "--het-leader", leader);
  char said[kPathBytes];
  if (!run(words.word, kNoEnvironment, kHearStderr, said, sizeof said))
    log_first_line("could not report this step to the daemon", said);
}

int slurm_spank_init_post_opt(spank_t spank, int count, char** arguments) {
  (void)count, (void)arguments;
  if (spank_remote(spank) == 1 && settings.mode[0] != '\0') notify_daemon(spank);
  return ESPANK_SUCCESS;
}

// Sets the variables of "export NAME=VALUE" lines.
static void set_environment(spank_t spank, char* said) {
  for (char *line = said, *next; *line != '\0'; line = next) {
    next = line + strcspn(line, "\n");
    if (*next != '\0') *next++ = '\0';
    if (!starts(line, kExport)) continue;
    char* name = line + strlen(kExport);
    char* equals = strchr(name, '=');
    if (equals == NULL) continue;
    *equals = '\0';
    spank_setenv(spank, name, equals + 1, 1);
  }
}

// Runs in the task, as the user, directly before the program.
int slurm_spank_task_init(spank_t spank, int count, char** arguments) {
  (void)count, (void)arguments;
  if (settings.mode[0] == '\0') return ESPANK_SUCCESS;
  char** environment = NULL;
  if (spank_get_item(spank, S_JOB_ENV, &environment) != ESPANK_SUCCESS || environment == NULL)
    return ESPANK_SUCCESS;
  struct words words = {.count = 0};
  add(&words, settings.program);
  add(&words, "run");
  add(&words, "--print-environment");
  add(&words, "--mode");
  add(&words, settings.mode);
  add_daemon(&words);
  char* said = malloc(kSaidBytes);
  if (said == NULL) return ESPANK_SUCCESS;
  // All tasks of a node have the same environment, so only the first one prints messages.
  const bool first = item(spank, S_TASK_ID, 0) == 0;
  if (run(words.word, environment, first ? kHearStdout : kHearStdoutOnly, said, kSaidBytes)) {
    set_environment(spank, said);
  } else if (first) {
    slurm_error("lockstep: %s could not be run, or did not answer in time; the job runs without Lockstep",
                settings.program);
  }
  free(said);
  return ESPANK_SUCCESS;
}
