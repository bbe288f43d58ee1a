"""Runs Lockstep with one workload at a time: daemon, CLI and program. Each has a log in the archive."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from evidence import last_line, run_logged, snapshot
# Variables of the caller that must not decide the ranks or their daemon.
FOREIGN = ("LOCKSTEP_", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN", "KINETO_USE_DAEMON", "RANK",
           "WORLD_SIZE", "LOCAL_RANK", "OMPI_", "PMIX_", "SLURM_", "XDG_STATE_HOME")


class Workload:
    """A program under `lockstep run`, or without it for comparison."""

    def __init__(self, folder, name, command, env):
        self.folder, self.name = folder, name
        self.log = folder / f"{name}.jsonl"
        with open(folder / f"{name}.out", "w") as output:
            output.write(f"$ {' '.join(command)}\n")
            output.flush()
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
                                            text=True, start_new_session=True)

    @property
    def pid(self):
        return self.process.pid

    def running(self):
        return self.process.poll() is None

    def send(self, line):
        """Sends one command to a program that reads commands (torch_loop.py)."""
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            pass

    def events(self, kind=None):
        """Returns the events logged so far. It skips an incomplete last line."""
        try:
            lines = self.log.read_text().splitlines()
        except OSError:
            return []
        events = []
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if kind is None or event.get("event") == kind:
                events.append(event)
        return events

    def wait_for(self, kind, count=1, timeout=30):
        """Waits until `count` events of a kind exist. Returns the last of them, or None."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            events = self.events(kind)
            if len(events) >= count:
                return events[count - 1]
            if not self.running():
                return None
            time.sleep(0.1)
        return None

    def output(self):
        text = (self.folder / f"{self.name}.out").read_text(errors="replace")
        return last_line(text)

    def wait(self, timeout):
        """Waits for the exit code. Kills the program after the timeout and returns None."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            snapshot(self.folder, self.pid, f"{self.name}-hangs", stacks=True)
            self.kill()
            return None

    def kill(self):
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(10)

    def stop(self, timeout=15):
        """Asks the program to end. Returns its exit code, or None if it was killed."""
        code = self.process.poll()
        if code is None:
            try:
                self.process.terminate()
            except ProcessLookupError:
                pass
            code = self.wait(timeout)
        try:
            self.process.stdin.close()
        except OSError:
            pass
        return code


class Session:
    """A section's folder, private socket folder and daemon. It is a context manager, which ends all its
    processes."""

    def __init__(self, setup, name, daemon=True, daemon_env=None):
        self.setup, self.name = setup, name
        self.folder = setup.work / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.calls, self.clis, self.workloads, self.daemon = 0, [], [], None
        self.starts_daemon, self.daemon_env = daemon, daemon_env
        # A socket's path has at most 107 bytes, so that the folder is not below OUT.
        self.sockets = pathlib.Path(tempfile.mkdtemp(prefix="lk-"))
        self.socket = self.sockets / "client.sock"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
        self.env.update({"LOCKSTEP_SOCKET": str(self.socket), "XDG_STATE_HOME": str(self.sockets / "state"), **setup.env})

    def __enter__(self):
        try:
            if self.starts_daemon:
                self.start_daemon(self.daemon_env)
        except BaseException:  # a signal or the time limit
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # Neither the section's time limit nor a signal may interrupt the cleanup.
        began, left = time.monotonic(), signal.setitimer(signal.ITIMER_REAL, 0)[0]
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        try:
            for workload in self.workloads:
                workload.stop(timeout=10)
            for cli in self.clis:
                if cli.poll() is None:
                    cli.kill()  # a background process of an interrupted section
            self.stop_daemon()
            for pid in self.stray_daemons():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # it ended with its parent
            for log in self.sockets.glob("*.log"):
                shutil.copy(log, self.folder / log.name)
            shutil.rmtree(self.sockets, ignore_errors=True)
        finally:
            if left:
                signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 0.01))
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)

    def start_daemon(self, env=None):
        """Starts a daemon with a full log. The daemon of `lockstep run` logs less."""
        log = open(self.folder / "lockstepd.out", "a")
        self.daemon = subprocess.Popen([self.program("lockstepd"), "--socket", str(self.socket), "--log-level", "debug", "--log",
                                        str(self.folder / "lockstepd.log")], env={**self.env, **(env or {})},
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        log.close()
        deadline = time.monotonic() + 10
        while not self.socket.exists() and self.daemon.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)

    def stop_daemon(self):
        if self.daemon is None:
            return
        if self.daemon.poll() is None:
            self.daemon.terminate()
            try:
                self.daemon.wait(10)
            except subprocess.TimeoutExpired:
                snapshot(self.folder, self.daemon.pid, "lockstepd-hangs", stacks=True)
                self.daemon.kill()
                self.daemon.wait(10)
        self.daemon = None

    def stray_daemons(self):
        """Returns the daemons that `lockstep run` started here and that still run, and one whose start a signal interrupted. The bundle's
        loader runs them, so their own name is the loader's."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
                if str(self.socket).encode() in words and any(word.rsplit(b"/", 1)[-1] == b"lockstepd" for word in words):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def program(self, name):
        return str(self.setup.bundle / "bin" / name)

    def workload(self, name, command, wrap=(), env=None):
        """Starts a program. `wrap` is the command before it, such as `lockstep run --`."""
        workload = Workload(self.folder, name, [*wrap, *command], {**self.env, **self.setup.program_env, **(env or {})})
        self.workloads.append(workload)
        return workload

    def under_run(self, *args):
        return [self.program("lockstep"), "run", *args, "--"]

    def cli(self, *args, timeout=60):
        self.calls += 1
        return run_logged(self.folder, f"cli-{self.calls:02}-{args[0]}", [self.program("lockstep"), *args], timeout, self.env,
                          self.clis.append)

    def status(self):
        """Returns (ranks, warnings) from `lockstep status`."""
        code, out, _ = self.cli("status", "--format", "json", timeout=15)
        try:
            daemons = json.loads(out).get("daemons", []) if code == 0 else []
        except ValueError:
            daemons = []
        return [r for d in daemons for r in d.get("ranks", [])], [w for d in daemons for w in d.get("warnings", [])]

    def wait_for_ranks(self, workload, count=1, timeout=60):
        """Waits for `count` ranks. Returns (ranks, the reason if there are too few)."""
        deadline = time.monotonic() + timeout
        ranks, warnings = [], []
        while time.monotonic() < deadline:
            ranks, warnings = self.status()
            if len(ranks) >= count:
                return ranks, ""
            if not workload.running():
                return ranks, f"the program ended with {workload.process.returncode}: {workload.output()}"
            time.sleep(0.3)
        snapshot(self.folder, workload.pid, f"{workload.name}-does-not-register")
        return ranks, f"{len(ranks)} of {count} after {timeout} s; warnings: {warnings or 'none'}; program: {workload.output()}"

    def trace(self, capture, *args, timeout=60):
        """Makes a capture. Returns (exit code, folder, output on stderr)."""
        folder = self.folder / capture
        code, _, err = self.cli("trace", "-o", str(folder), *args, timeout=timeout)
        if code is None:
            self.snapshots(f"{capture}-hangs", stacks=True)
        elif code != 0:
            self.snapshots(f"{capture}-failed")
        return code, folder, err

    def snapshots(self, name, stacks=False):
        """Stores the state of all running programs and the daemon."""
        running = [(w.name, w.pid) for w in self.workloads if w.running()]
        if self.daemon and self.daemon.poll() is None:
            running.append(("lockstepd", self.daemon.pid))
        for who, pid in running:
            snapshot(self.folder, pid, f"{name}-{who}", stacks)
