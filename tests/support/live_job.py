"""A job of simulated ranks under mpiexec with Lockstep's programs, for the demo, the evaluation and the
end-to-end tests. All files are in one folder. All processes end with the `with` block."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from waiting import wait_until


class LiveJob:
    """`bin_dir` holds the programs. `work` is a folder of the caller, created if missing. Socket and state
    are inside it, so that other daemons on this machine are not affected."""

    def __init__(self, bin_dir, work, ranks=8, rank_args=(), env=None, rank_command=None, run_args=()):
        self.bin_dir = pathlib.Path(bin_dir).resolve()
        self.work = pathlib.Path(work).resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.ranks = ranks
        self.truth = self.work / "truth"
        self.truth.mkdir(exist_ok=True)
        # A Unix socket's path has at most 107 bytes. The socket therefore has a private folder with a short
        # path.
        self._socket_dir = tempfile.TemporaryDirectory(prefix="lk-")
        self.socket = pathlib.Path(self._socket_dir.name) / "client.sock"
        self.env = dict(os.environ)
        self.env.update({
            "LOCKSTEP_SOCKET": str(self.socket),
            "XDG_STATE_HOME": str(self.work / "state"),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        })
        for name in ("LOCKSTEP_AGGREGATOR", "LOCKSTEP_TOKEN_FILE", "LOCKSTEP_JOB", "LOCKSTEP_RANK"):
            self.env.pop(name, None)
        self.env.update(env or {})
        rank = [str(self.bin_dir / "lockstep-sim-rank"), "--truth", str(self.truth), *map(str, rank_args)]
        self.command = ["mpiexec", "--oversubscribe", "--bind-to", "none", "-n", str(ranks),
                        str(self.bin_dir / "lockstep"), "run", *run_args, "--", *(rank_command or rank)]
        self.process = None

    def __enter__(self):
        self.log = open(self.work / "ranks.log", "w")
        self.process = subprocess.Popen(self.command, env=self.env, stdout=self.log, stderr=subprocess.STDOUT,
                                        stdin=subprocess.DEVNULL, start_new_session=True)
        return self

    def __exit__(self, *_):
        self.stop()
        self.log.close()
        self._socket_dir.cleanup()

    def stop(self):
        """Ends the ranks and waits for them. Also ends the on-demand daemon, which would end by itself a
        little later."""
        if self.process and self.process.poll() is None:
            # mpiexec would kill a rank that has not ended one second after the signal.
            if not self.signal_ranks(signal.SIGTERM):
                self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGTERM)
                try:
                    self.process.wait(30)
                except subprocess.TimeoutExpired:
                    os.killpg(self.process.pid, signal.SIGKILL)
                    self.process.wait(60)
        for pid in self.daemons():
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        wait_until(lambda: not self.daemons(), "the daemons' end")

    def signal_ranks(self, number):
        """Sends a signal to the children of the launcher. Returns whether there are any."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), number)
        return bool(children)

    def daemons(self):
        """Returns the pids of the daemons of this job's socket, found by their environment or arguments."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if (entry / "comm").read_text().strip() != "lockstepd":
                    continue
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if str(self.socket.parent).encode() in text:
                found.append(int(entry.name))
        return found

    def cli(self, *args, timeout=120, **kwargs):
        return subprocess.run([str(self.bin_dir / "lockstep"), *map(str, args)], env=self.env, text=True,
                              capture_output=True, timeout=timeout, **kwargs)

    def wait_for_ranks(self, count=None, timeout=60):
        """Waits until `lockstep status` shows `count` ranks. Returns the status document."""
        count = self.ranks if count is None else count
        deadline = time.monotonic() + timeout
        last = ""
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the ranks ended early ({self.process.returncode}):\n{self.rank_output()}")
            done = self.cli("status", "--format", "json")
            last = done.stdout + done.stderr
            if done.returncode == 0:
                status = json.loads(done.stdout)
                if sum(len(d.get("ranks", [])) for d in status.get("daemons", [])) >= count:
                    return status
            time.sleep(0.2)
        raise RuntimeError(f"{count} ranks were not there after {timeout} s; output of status:\n{last}\noutput of ranks:\n"
                           f"{self.rank_output()}")

    def output(self):
        """Returns the text that the ranks and their launcher have printed so far."""
        return (self.work / "ranks.log").read_text()

    def rank_output(self):
        return self.output()[-4000:]

    def trace(self, out, *args, timeout=180):
        return self.cli("trace", "-o", out, *args, timeout=timeout)


def report_of(folder):
    return json.loads((pathlib.Path(folder) / "report.json").read_text())


def truths_of(folder):
    """Returns the truth files by rank (docs/formats/truth.md)."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        document = json.loads(path.read_text())
        found[document["rank"]] = document
    return found
