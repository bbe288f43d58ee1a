"""A node with a daemon, an aggregator and a job, for the rows of ./dev soak."""
import contextlib
import dataclasses
import json
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cable import Cable  # noqa: E402
from call_times import CallTimes  # noqa: E402
from captured import PARTIAL, WHOLE, Capture  # noqa: E402
from late_ranks import RANK_ARGS  # noqa: E402
from live_job import LiveJob, truths_of  # noqa: E402
from proxy import Proxy  # noqa: E402
from waiting import wait_for_check, wait_until  # noqa: E402

# A rank is free this long after its daemon is connected again.
FREE_WITHIN_S = 2.0
# After a signal, a rank on a busy machine needs seconds to write its truth file.
KILL_LATE = {"OMPI_MCA_odls_base_sigkill_timeout": "10"}
VICTIM = 2
ATTEMPTS = 5
DISK_BYTES = 16 << 20
# libfiu's preloads, as fiu-run sets them.
FIU = "/usr/lib/fiu/fiu_run_preload.so /usr/lib/fiu/fiu_posix_preload.so"


@dataclasses.dataclass
class Programs:
    bin: pathlib.Path

    @property
    def clock(self):
        return self.bin.parent / "lib" / "liblockstep_fake_realtime.so"


class Running:
    """A `lockstep trace` that runs."""

    def __init__(self, site, folder, command):
        self.site, self.folder, self.began, self.victim = site, folder, time.monotonic(), site.victims
        self.before = site.begun()
        self.process = subprocess.Popen(command, env=site.job.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    @property
    def pid(self):
        return self.process.pid

    def wait_begun(self):
        """Waits until the aggregator has begun the capture."""
        wait_until(lambda: self.site.begun() > self.before or self.process.poll() is not None, "the capture's begin")

    def finish(self, timeout=90):
        try:
            text, _ = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            text, _ = self.process.communicate()
            raise AssertionError(f"the capture did not end within {timeout} s: {text}") from None
        return self.site.ended(Capture(self.folder, self.process.returncode, text, time.monotonic() - self.began, self.victim))


class Site:
    """Starts with the `with` block. All files are in `work`, and the processes end with the block.

    daemon, aggregator     the words before these programs, as in ("prlimit", "--nofile=64")
    environment            more variables of these programs, by name
    proxied, cabled        the daemon reaches the aggregator through `proxy`, or from another network behind `cable`
    victim                 the job has a third rank that may be killed. It has no launcher, because mpiexec ends a job when
                           one of its ranks dies
    job, ranks             with job=False, the row starts its own `ranks`
    small_disks            the folders "state", "out" or "log" that are file systems of 16 MiB
    injected               fiu-ctrl can make the aggregator's system calls fail"""

    def __init__(self, programs, work, *, daemon=(), aggregator=(), daemon_args=(), aggregator_args=(), environment=None, rank_args=RANK_ARGS,
                 proxied=False, cabled=False, victim=False, job=True, ranks=None, small_disks=(), injected=False):
        self.programs, self.work = programs, work
        self.words = {"daemon": daemon, "aggregator": aggregator}
        self.more = {"daemon": daemon_args, "aggregator": aggregator_args}
        self.environment = environment or {}
        if injected:
            self.environment["aggregator"] = {"LD_PRELOAD": FIU, "FIU_CTRL_FIFO": str(work / "fiu")}
        self.proxied, self.cabled, self.has_victim, self.has_job = proxied, cabled, victim, job
        self.proxy = self.cable = None
        self.ranks = ranks or (3 if victim else 2)
        self.state, self.outputs, self.logs = (work / name for name in ("state", "out", "log"))
        self.call_times = CallTimes(work / "calls")
        self.small_disks = small_disks
        self.captures = []
        self.free_after_s = []
        self.victims = self.compared = 0
        self.processes = {}
        self.closing = contextlib.ExitStack()
        work.mkdir()
        self.token = work / "token"
        self.token.write_text(secrets.token_hex(16) + "\n")
        self.token.chmod(0o600)
        self.rank_args = ("--forever", "--seed", "11", *rank_args)
        self.job = LiveJob(programs.bin, work / "job", ranks=2, rank_args=(*self.rank_args, "--call-times", self.call_times.folder), env={**KILL_LATE, **self.world()},
                           rank_command=self.numbered() if victim else None)
        self.port = 0

    # ---- life

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            for folder in (self.state, self.outputs, self.logs):
                folder.mkdir()
                if folder.name in self.small_disks:
                    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(folder)], check=True)
                    stack.callback(subprocess.run, ["umount", "-l", str(folder)], check=True)
            if self.cabled:
                self.cable = Cable()
                stack.callback(self.cable.close)
                self.words["daemon"] = self.cable.words()
            stack.callback(self.end_servers)
            self.start("aggregator")
            if self.proxied:
                self.proxy = Proxy(self.address)
                stack.callback(self.proxy.close)
            self.start("daemon")
            if self.has_job:
                stack.enter_context(self.job)
                if self.has_victim:
                    self.start_victim()
                    stack.callback(lambda: self.stop("victim"))
                self.wait_connected()
            self.closing = stack.pop_all()
        return self

    def __exit__(self, kind, *_):
        with self.closing:
            self.job.stop()
            if kind is None:
                self.check_balance()

    def end_servers(self):
        for name in ("daemon", "aggregator"):
            self.stop(name)

    # ---- processes

    def world(self):
        return {"LOCKSTEP_JOB": "soak", **({"LOCKSTEP_WORLD_SIZE": "3"} if self.has_victim else {})}

    def rank_program(self, *more):
        return [str(self.programs.bin / "lockstep-sim-rank"), *self.rank_args, *more]

    def numbered(self):
        return ["sh", "-c", 'LOCKSTEP_RANK=$OMPI_COMM_WORLD_RANK exec "$0" "$@"',
                *self.rank_program("--truth", str(self.work / "job" / "truth"), "--call-times", str(self.call_times.folder))]

    @property
    def address(self):
        """The address of the aggregator for programs of this machine."""
        return f"127.0.0.1:{self.port}"

    def address_for_daemon(self):
        return self.proxy.address if self.proxy else f"{self.cable.outer}:{self.port}" if self.cable else self.address

    @property
    def reach(self):
        return ("--aggregator", self.address, "--token-file", str(self.token))

    def spawn(self, name, command, env=None):
        process = subprocess.Popen([*map(str, command)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(self.work / f"{name}.err", "ab"),
                                   env={**self.job.env, **(env or {})})
        self.processes[name] = process
        return process

    def start(self, name):
        """Starts "daemon" or "aggregator", also again after its end, with the same address and folders."""
        log = self.logs / f"{name}.log"
        begin = log.stat().st_size if log.exists() else 0
        if name == "aggregator":
            command = [self.programs.bin / "lockstep-aggregator", "--listen", f"{'0.0.0.0' if self.cable else '127.0.0.1'}:{self.port}",
                       "--token-file", self.token, "--state-dir", self.state]
        else:
            command = [self.programs.bin / "lockstepd", "--socket", self.job.socket, "--token-file", self.token, "--audit-log", self.logs / "audit.jsonl",
                       "--aggregator", self.address_for_daemon()]
        self.spawn(name, [*self.words[name], *command, "--log", log, "--log-format", "json", *self.more[name]], self.environment.get(name))
        events = lambda: [json.loads(line) for line in log.read_bytes()[begin:].splitlines() if line.endswith(b"}")] if log.exists() else []  # noqa: E731
        found = wait_until(lambda: [e for e in events() if e["event"] == "listening"], f"the {name}", lambda: self.errors(name))
        if name == "aggregator":
            self.port = int(found[0]["address"].rpartition(":")[2])

    def start_victim(self):
        """Starts a process without a launcher, in the same job as the others. It takes itself for rank 0 of 1."""
        self.victims += 1
        self.spawn("victim", [self.programs.bin / "lockstep", "run", "--", *self.rank_program("--truth", str(self.work / f"victim-{self.victims}"))],
                   {"LOCKSTEP_RANK": str(VICTIM), "OMPI_MCA_ess_singleton_isolated": "1"})

    def errors(self, name):
        return "".join(path.read_text(errors="replace")[-2000:] for path in (self.logs / f"{name}.log", self.work / f"{name}.err") if path.exists())

    def stop(self, name):
        process = self.processes.get(name)
        if process and process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)

    def pid(self, name):
        """Returns the pid of the daemon, the aggregator or the victim. `lockstep run` becomes the rank."""
        return self.processes[name].pid

    def wait_gone(self, name, seconds=30):
        self.processes[name].wait(seconds)

    # ---- state

    def cli(self, *args, timeout=60):
        return self.job.cli(*args, timeout=timeout)

    def seen_ranks(self):
        """Returns the ranks that the aggregator knows of connected daemons."""
        done = self.cli("status", *self.reach, "--format", "json")
        if done.returncode != 0:
            return []
        return [rank["rank"] for daemon in json.loads(done.stdout)["daemons"] if daemon.get("connected", True) for rank in daemon.get("ranks", [])]

    def wait_connected(self, seconds=60):
        """Waits until the aggregator sees every rank. Returns the time."""
        wait_until(lambda: sorted(set(self.seen_ranks())) == list(range(self.ranks)), "the ranks at the aggregator",
                   lambda: f"{self.cli('status', *self.reach).stdout}\n{self.job.rank_output()}\n{self.errors('daemon')}\n{self.errors('aggregator')}", seconds)
        return time.monotonic()

    def begun(self):
        """Returns the number of captures that have begun."""
        return (self.logs / "aggregator.log").read_text().count('"event":"capture_begins"')

    def descriptors(self, name):
        return len(list(pathlib.Path(f"/proc/{self.pid(name)}/fd").iterdir()))

    def resident_kib(self, name):
        text = pathlib.Path(f"/proc/{self.pid(name)}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])

    # ---- captures

    def begin(self, duration="1500ms", *args):
        folder = self.outputs / f"c{len(self.captures)}-{time.monotonic_ns() % 10**9}"
        return Running(self, folder, [str(self.programs.bin / "lockstep"), "trace", "-o", str(folder), *self.reach, "--job", "soak", "--duration", duration,
                                      "--formats", "none", *args])

    def capture(self, duration="1s", *args):
        return self.begin(duration, *args).finish()

    def ended(self, capture):
        """Checks what holds for every capture that has ended, and keeps it for the balance."""
        self.check_job()
        if capture.has_report():
            capture.check_report()
            self.captures.append(capture)
        if capture.code == WHOLE:
            capture.check_window(self.ranks)
        return capture

    def check_job(self):
        assert self.job.process is None or self.job.process.poll() is None, "the job ended:\n" + self.job.rank_output()

    def whole_capture(self, duration="1s", *args):
        """Captures. A capture that began late by the load of the machine is repeated."""
        for _ in range(ATTEMPTS):
            capture = self.capture(duration, *args)
            if not capture.began_late():
                break
        assert capture.code == WHOLE, f"not whole: {capture}\n{self.errors('aggregator')}"
        return capture

    def quiet_capture(self):
        """A whole capture without a fault. The times of its calls are the baseline. Ranks that have just started may still
        be behind the wall clock."""
        for _ in range(ATTEMPTS):
            with self.call_times.noted(self.call_times.quiet):
                capture = self.capture()
            if capture.code == WHOLE:
                return
        raise AssertionError(f"not whole without a fault: {capture}\n{self.errors('daemon')}")

    def fault(self):
        """The times of calls inside the `with` block are compared with those of the quiet captures."""
        return self.call_times.noted(self.call_times.faults)

    def recovered(self, not_before=0.0):
        """Checks that all ranks come back, and are free for another capture soon. `not_before` is the time at which a
        capture may still hold them."""
        since = max(self.wait_connected(), not_before)
        while True:
            began = time.monotonic()
            capture = self.begin("1s", "--arm-timeout", "5s").finish()
            if capture.code == WHOLE or capture.began_late():
                break
            assert began - since <= FREE_WITHIN_S, f"still refused {began - since:.1f} s after all ranks were connected: {capture}"
            time.sleep(0.1)
        self.free_after_s.append(max(0.0, began - since))
        self.call_times.quiet.append((int(began * 1e9), time.monotonic_ns()))

    def kept(self):
        """Returns the folders of captures that the aggregator keeps and that have records."""
        return [folder for folder in sorted((self.state / "captures").glob("*")) if any(f.stat().st_size for f in folder.glob("records/*.lsr"))]

    def check_fetchable(self, folder, must_be_partial):
        """Checks that the aggregator serves a capture that it kept, and says whether it is whole."""
        def check():
            done = self.cli("report", folder.name, *self.reach)
            assert done.returncode in ((PARTIAL,) if must_be_partial else (WHOLE, PARTIAL)), \
                f"report {folder.name} exits with {done.returncode}, must be partial: {must_be_partial}: {done.stderr}{done.stdout[:500]}"
            assert done.stdout.startswith("PARTIAL ") == (done.returncode == PARTIAL), done.stdout[:300]
        wait_for_check(check, 20)

    # ---- checks at the end

    def check_balance(self):
        """Checks produced = stored + lost of every capture, once the ranks have written their truth files."""
        self.stop("victim")
        truths = truths_of(self.job.truth)
        assert all(truth["complete"] for truth in truths.values()), "a rank did not end by itself"
        for capture in self.captures:
            victim = {VICTIM: truth for truth in truths_of(self.work / f"victim-{capture.victim}").values() if truth["complete"]}
            self.compared += capture.check_balance({**truths, **victim})


def temporary(prefix):
    return tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)


def fill(folder, leave):
    """Fills a file system, except for `leave` bytes. Returns the file to remove."""
    space = os.statvfs(folder)
    filler = folder / "filler"
    with open(filler, "wb") as file:
        rest = max(0, space.f_bavail * space.f_frsize - leave)
        with contextlib.suppress(OSError):
            while rest > 0:
                rest -= file.write(b"\0" * min(rest, 1 << 16))
    return filler
