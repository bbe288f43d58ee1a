"""The client library: other versions of it, and its memory errors."""
import pathlib
import re
import subprocess
import sys

from captured import WHOLE
from cluster import Site
from row import Row
from waiting import wait_until

UPGRADE = pathlib.Path(__file__).resolve().parents[1] / "e2e" / "upgrade_test.py"
OURS = re.compile(r"<dir>[^<]*/(client|wire|base)(/[^<]*)?</dir>")
MEMCHECK = ("valgrind", "-q", "--xml=yes", "--error-limit=no", "--trace-children=yes")


def upgraded(test):
    """Returns a row's function: a case of upgrade_test.py."""
    def run(turn):
        done = subprocess.run([sys.executable, str(UPGRADE), str(turn.programs.bin), f"Upgrade.{test}"], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
    return run


def tested(program, cases):
    """Returns a row's function: cases of a program of unit tests."""
    def run(turn):
        done = subprocess.run([str(turn.programs.bin / program), f"--gtest_filter={cases}"], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0 and re.search(r"\[  PASSED  \] [1-9]", done.stdout), done.stdout[-2000:]
    return run


def check_errors(turn, pattern):
    """Checks that no error of memcheck has a frame of our sources. Errors in CUDA's and NCCL's libraries are not ours."""
    texts = [path.read_text(errors="replace") for path in turn.work.glob(pattern)]
    assert texts, "valgrind wrote nothing"
    # Leaks are left out: the client's thread runs until the process ends, so its thread-local memory counts as lost.
    errors = [error for text in texts for error in re.findall(r"<error>.*?</error>", text, re.S) if "<kind>Leak_" not in error]
    ours = [error for error in errors if OURS.search(error)]
    turn.count("processes", len(texts))
    turn.count("errors of others", len(errors) - len(ours))
    assert not ours, f"{len(ours)} errors, the first: {re.sub('<[^>]*>', ' ', ours[0])[:2000]}"


def memcheck(program):
    """Returns a row's function: a program of the client's tests. Some of its cases fail under valgrind, because they
    check times and descriptors; only errors of memory count."""
    def run(turn):
        done = subprocess.run([*MEMCHECK, f"--xml-file={turn.work}/%p.xml", str(turn.programs.bin / program)], capture_output=True, text=True, timeout=1800)
        ran = re.search(r"\[==========\] ([\d,]+) tests? from .* ran", done.stdout)
        assert ran, f"{program} did not end: {done.stdout[-1000:]}{done.stderr[-1000:]}"
        turn.set("tests", ran[1])
        check_errors(turn, "*.xml")
    return run


def memcheck_captured(turn):
    """A program in C on the simulated CUDA, with the injected client, is captured under valgrind."""
    stack = turn.programs.bin.parent / "lib" / "sim_stack"
    with Site(turn.programs, turn.work / "site", job=False, ranks=1) as site:
        site.spawn("loop", [turn.programs.bin / "lockstep", "run", "--", *MEMCHECK, f"--xml-file={turn.work}/%p.xml", turn.programs.bin / "lockstep_cuda_loop", "60"],
                   {"LOCKSTEP_JOB": "soak", "LOCKSTEP_RANK": "0", "LOCKSTEP_WORLD_SIZE": "1", "LD_LIBRARY_PATH": str(stack), "LD_PRELOAD": ""})
        try:
            wait_until(lambda: site.seen_ranks() == [0], "the program", lambda: site.errors("loop"))
            capture = site.capture("1s", "--arm-timeout", "30s")
            assert capture.code == WHOLE, str(capture)
        finally:
            site.stop("loop")
    check_errors(turn, "*.xml")


ROWS = [
    Row("client-next-minor", "a client with the next minor version of the ring's layout, with this daemon", upgraded("test_captures_a_client_of_the_next_minor_layout"), 5),
    Row("client-next-major", "a client with the next major version: refused by name, and the job goes on", upgraded("test_refuses_a_client_of_the_next_major_layout"), 5),
    Row("older-daemon", "this client with a daemon that speaks each older minor version (unit tests)", tested("lockstep_client_test", "*OlderDaemonTest.*"), 10),
    Row("valgrind-client", "memcheck over the client's unit tests", memcheck("lockstep_client_test"), 1, needs=("valgrind",)),
    Row("valgrind-nvtx", "memcheck over the tests of NVTX's chain", memcheck("lockstep_nvtx_chain_test"), 1, needs=("valgrind",)),
    Row("valgrind-guest", "memcheck over programs that load liblockstep_client.so", memcheck("guest_test"), 1, needs=("valgrind",)),
    Row("valgrind-capture", "memcheck over a captured program in C", memcheck_captured, 3, needs=("valgrind",)),
]
