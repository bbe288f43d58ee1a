"""Checks properties of the injected library that its file shows: its exports, its dependencies and its
imports.

usage: client_library_check.py LIBRARY
"""
import re
import subprocess
import sys
import unittest

LIBRARY = sys.argv.pop(1)

EXPORTS = {
    "InitializeInjection", "InitializeInjectionNvtx2", "InitializeInjectionNvtxExtension", "ncclProfiler_v1", "ncclProfiler_v2", "ncclProfiler_v3", "ncclProfiler_v4", "ncclProfiler_v5", "ncclProfiler_v6",
    "lockstep_version", "lockstep_start", "lockstep_step_begin", "lockstep_step_end", "lockstep_range_push",
    "lockstep_range_pop", "lockstep_profiler_start", "lockstep_profiler_stop", "lockstep_capturing", "lockstep_on_capture",
}
NEEDED = {"libc.so.6", "libpthread.so.0", "libdl.so.2"}
NEWEST_GLIBC = (2, 28)

# All libc functions that it imports. None of them allocates, prints, exits or starts a process. A new name
# needs a decision.
IMPORTS = {
    "__cmsg_nxthdr", "__cxa_atexit", "__cxa_finalize", "__errno_location", "__register_atfork", "clock_gettime", "close", "connect",
    "dladdr", "dlclose", "dlinfo", "dlopen", "dlsym", "fcntl", "getenv", "geteuid", "getpid", "madvise", "memcmp",
    "memcpy", "memmove", "memset", "mmap", "munmap", "nanosleep", "open", "poll", "prctl", "program_invocation_short_name",
    "__progname",  # GNU ld names it instead of program_invocation_short_name
    "pthread_attr_destroy",
    "pthread_attr_init", "pthread_attr_setdetachstate", "pthread_attr_setstacksize", "pthread_create",
    "pthread_getspecific", "pthread_key_create", "pthread_setspecific", "pthread_sigmask", "read", "recvmsg",
    "secure_getenv", "sendmsg", "setenv", "sigfillset", "socket", "strchr", "strcmp", "strlen", "strncmp", "strnlen", "strrchr", "strstr",
    "syscall",
    # Weak symbols from the compiler's start files.
    "__gmon_start__", "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable",
    # Hardening (docs/install.md). They stop the process if the library has overrun its own memory.
    "__memcpy_chk", "__stack_chk_fail",
}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class ClientLibrary(unittest.TestCase):
    def setUp(self):
        self.dynamic = run("readelf", "-dW", LIBRARY)
        self.defined, self.undefined, self.versions = set(), set(), set()
        for line in run("readelf", "--dyn-syms", "-W", LIBRARY).splitlines():
            fields = line.split()
            # Columns: Num, Value, Size, Type, Bind, Vis, [marks such as <OTHER: 60>], Ndx, Name.
            if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
                continue
            index, full_name = (fields[-2], fields[-1]) if not fields[-1].startswith("(") else (fields[-3], fields[-2])
            name, _, version = full_name.partition("@")
            (self.undefined if index == "UND" else self.defined).add(name)
            if version:
                self.versions.add(version.lstrip("@"))

    def test_exports_exactly_its_entry_points(self):
        self.assertEqual(self.defined, EXPORTS)

    def test_needs_libc_libpthread_and_libdl_and_nothing_else(self):
        self.assertEqual(set(re.findall(r"\(NEEDED\).*\[(.*)\]", self.dynamic)), NEEDED)

    def test_newest_glibc_symbol_is_of_2_28_or_older(self):
        glibc = {v for v in self.versions if v.startswith("GLIBC_")}
        self.assertEqual(self.versions - glibc, set(), "symbol versions of another library than glibc")
        newest = max(tuple(int(part) for part in v[len("GLIBC_"):].split(".")) for v in glibc)
        self.assertLessEqual(newest[:2], NEWEST_GLIBC)

    def test_calls_only_listed_functions(self):
        self.assertLessEqual(self.undefined - {""}, IMPORTS)

    def test_is_never_unloaded(self):
        self.assertRegex(self.dynamic, r"FLAGS_1\).*NODELETE")

    def test_has_no_text_relocations_and_no_executable_stack(self):
        self.assertNotIn("TEXTREL", self.dynamic)
        stack = [line for line in run("readelf", "-lW", LIBRARY).splitlines() if "GNU_STACK" in line]
        self.assertTrue(stack and "RWE" not in stack[0], stack)

    def test_uses_no_thread_local_storage(self):
        self.assertNotRegex(run("readelf", "-lW", LIBRARY), r"^\s+TLS\s")

    def test_only_its_constructor_runs_on_load(self):
        size = int(re.search(r"INIT_ARRAYSZ\)\s+(\d+)", self.dynamic).group(1))
        # The two entries are the compiler's frame_dummy and the library's constructor.
        self.assertEqual(size, 2 * 8)

    def test_is_not_sanitized_in_any_build(self):
        self.assertFalse([name for name in self.undefined if name.startswith(("__asan", "__tsan", "__ubsan"))])


if __name__ == "__main__":
    unittest.main(verbosity=2)
