"""Attacks root's daemon and an aggregator as an unprivileged user of the node, and measures what the owner notices.

Root's daemon and an aggregator with a token serve alice's job of simulated ranks. Bob runs lockstep-attacker. Under
each attack root asks both for their status again and again and makes a capture, and alice's job goes on.

  attacks_test.py BIN TESTING [--calls N] [--most-status MS] [--table FILE] [--only NAME]

Writes a Markdown table with one row per attack. Exits with 1 if a row's limits do not hold."""
import argparse
import dataclasses
import pathlib
import signal
import sys
import threading
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "support"))
from nodes import Nodes, enter, ranks_of  # noqa: E402
from waiting import wait_until  # noqa: E402

RANKS = 4
JOB = f"LOCKSTEP_JOB=alices mpiexec --oversubscribe --bind-to none -n {RANKS} lockstep run -- lockstep-sim-rank --forever --time-scale 4"
TOKEN, STATE = "/run/token", "/run/aggregator"
MOST_GROWTH_MIB = 300
MOST_PROCESSES = 40


@dataclasses.dataclass
class Attack:
    name: str
    target: str  # port, control.sock or client.sock
    number: int
    text: str


ATTACKS = [
    Attack("silent", "port", 1000, "1,000 connections to the aggregator's port that send nothing and come back when they are closed"),
    Attack("big-requests", "port", 12, "48 calls at a time without a token, each with a request of 15 MiB"),
    Attack("streams", "port", 4, "streams without a token, opened and cancelled as fast as possible"),
    Attack("credentials", "port", 100, "100 calls at a time with invented MUNGE credentials"),
    Attack("silent", "control.sock", 600, "600 connections to the daemon's control socket that send nothing"),
    Attack("control-requests", "control.sock", 50, "50 connections to the control socket with requests of 900 KB"),
    Attack("idle-dials", "control.sock", 40, "40 requests at a time to connect to a socket that never answers"),
    Attack("silent", "client.sock", 1000, "1,000 connections to the client socket that send nothing"),
    Attack("offered-segments", "client.sock", 8, "8 clients at a time that offer a segment of 4 GiB"),
    Attack("flooded-ring", "client.sock", 1, "a rank of bob's that writes records without end, while bob captures it"),
]


class Sampler:
    """Reads the memory of a process tree's members by name, and their number, until it is stopped."""

    def __init__(self, node, names):
        self.node, self.names = node, names
        self.peak = {name: 0 for name in names}
        self.processes = 0
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def now(self):
        script = " ".join(f"echo {name} $(pgrep -o -x {name} | xargs -I P grep VmRSS /proc/P/status);" for name in self.names)
        found = {}
        for line in self.node.sh("root", script + " echo unmunge $(pgrep -c unmunge)", check=False).stdout.splitlines():
            words = line.split()
            found[words[0]] = int(words[2]) // 1024 if len(words) > 2 else int(words[1]) if len(words) == 2 else 0
        return found

    def run(self):
        while not self.stopped.wait(0.3):
            now = self.now()
            for name in self.names:
                self.peak[name] = max(self.peak[name], now.get(name, 0))
            self.processes = max(self.processes, now.get("unmunge", 0))

    def stop(self):
        self.stopped.set()
        self.thread.join()


class Site:
    """The node with its daemon, aggregator and job."""

    SERVERS = ("lockstepd", "lockstep-aggreg")  # the kernel cuts names at 15 characters

    def __init__(self, bin_dir, testing):
        self.nodes = Nodes(bin_dir, names=("a",))
        self.nodes.give(testing, "/opt/attack")
        self.nodes.start()
        self.node = self.nodes["a"]
        self.node.sh("root", f"openssl rand -hex 32 > {TOKEN}; chmod 600 {TOKEN}")
        # A MUNGE that takes 20 ms for a check and refuses all.
        self.node.sh("root", "printf '#!/bin/sh\\nsleep 0.02\\nexit 1\\n' > /opt/bin/unmunge; chmod 755 /opt/bin/unmunge")
        self.node.sh("root", "lockstepd --log /run/lockstepd.log >/dev/null 2>&1 &")
        self.node.sh("root", f"lockstep-aggregator --listen 127.0.0.1:0 --token-file {TOKEN} --munge --state-dir {STATE} >/run/aggregator.out 2>&1 &")
        wait_until(lambda: "listening on" in self.read("/run/aggregator.out"), "the aggregator", lambda: self.read("/run/aggregator.out"))
        self.address = self.read("/run/aggregator.out").split("listening on ")[1].split()[0]
        wait_until(lambda: self.status("root").returncode == 0, "the daemon")
        self.job = self.node.start("alice", f"OMPI_MCA_btl_vader_single_copy_mechanism=none {JOB}", pathlib.Path("/mnt/alice.out"))
        wait_until(lambda: len(ranks_of(self.status("root", "--format json").stdout)) == RANKS, "alice's ranks",
                   lambda: pathlib.Path("/mnt/alice.out").read_text())

    def read(self, path):
        return self.node.sh("root", f"cat {path} 2>/dev/null", check=False).stdout

    def status(self, user, options=""):
        return self.node.sh(user, f"lockstep status {options}", check=False, timeout=120)

    def aggregator(self):
        return f"--aggregator {self.address} --token-file {TOKEN}"

    def milliseconds(self, options, calls):
        """Returns the times of `lockstep status`, whole processes, measured on the node."""
        script = (f"import subprocess, time\nfor i in range({calls}):\n t = time.monotonic()\n"
                  f" code = subprocess.run('lockstep status {options} >/dev/null 2>&1', shell=True).returncode\n"
                  " print(code, (time.monotonic() - t) * 1e3)")
        lines = self.node.sh("root", f"python3 -c \"{script}\"", timeout=600).stdout.splitlines()
        codes = {line.split()[0] for line in lines}
        return codes, sorted(float(line.split()[1]) for line in lines)

    def capture(self, number):
        began = time.monotonic()
        done = self.node.sh("root", f"lockstep trace --job alices --duration 1s -o capture-{number} --force", check=False, timeout=120)
        return done, time.monotonic() - began


def p99(times):
    return times[min(len(times) - 1, int(len(times) * 0.99))]


class Row:
    def __init__(self, site, attack, given, number):
        calls, most_ms = given.calls, given.most_status
        self.attack, self.failures = attack, []
        target = site.address if attack.target == "port" else f"/run/lockstep/{attack.target}"
        before = Sampler(site.node, Site.SERVERS)
        before.stop()
        rest = before.now()
        attacker = site.node.start("bob", f"exec nice -n 10 /opt/attack/lockstep-attacker {attack.name} {target} {attack.number}",
                                   pathlib.Path("/mnt/attacker.out"))
        bobs = None
        if attack.name == "flooded-ring":
            wait_until(lambda: ranks_of(site.status("bob", "--format json").stdout), "bob's rank")
            bobs = site.node.start("bob", "nice -n 10 lockstep trace --all --duration 5s -o flood --force", pathlib.Path("/mnt/bob.out"))
        time.sleep(1)
        sampler = Sampler(site.node, Site.SERVERS)
        self.daemon = site.milliseconds("", calls)
        self.aggregator = site.milliseconds(site.aggregator(), calls)
        done, self.capture_s = site.capture(number)
        sampler.stop()
        self.check(attacker.poll() is None, "the attacker ended: " + pathlib.Path("/mnt/attacker.out").read_text())
        site.node.sh("root", "pkill -9 lockstep-attack", check=False)
        attacker.wait(10)
        if bobs:
            site.node.sh("root", "pkill -9 -u bob", check=False)
            bobs.wait(10)
        self.growth = {name: sampler.peak[name] - rest[name] for name in Site.SERVERS}
        self.processes = sampler.processes
        self.check(site.job.poll() is None, "alice's job ended")
        self.check(done.returncode == 0, f"the capture failed ({done.returncode}): {done.stdout[-500:]}{done.stderr[-500:]}")
        for what, (codes, times) in (("daemon", self.daemon), ("aggregator", self.aggregator)):
            self.check(codes == {"0"}, f"status of the {what} exited with {sorted(codes)}")
            self.check(p99(times) <= most_ms, f"status of the {what} took {p99(times):.0f} ms (p99)")
        for name, grown in self.growth.items():
            self.check(grown <= MOST_GROWTH_MIB, f"{name} grew by {grown} MiB")
        self.check(self.processes <= MOST_PROCESSES, f"{self.processes} processes of unmunge")

    def check(self, held, otherwise):
        if not held:
            self.failures.append(otherwise)

    def markdown(self):
        times = " / ".join(f"{times[len(times) // 2]:.0f}, {p99(times):.0f}" for _, times in (self.daemon, self.aggregator))
        growth = " / ".join(str(self.growth[name]) for name in Site.SERVERS)
        seen = "held" if not self.failures else "**" + "; ".join(self.failures).replace("\n", " ") + "**"
        return f"| {self.attack.text} | {times} | {self.capture_s:.1f} | {growth} | {seen} |"


HEAD = ("| attack by another user | status of daemon / aggregator, ms (median, p99) | capture of 1 s, s | growth of daemon / aggregator, MiB | seen |\n"
        "|---|---|---|---|---|")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("bin", type=pathlib.Path)
    options.add_argument("testing", type=pathlib.Path)
    options.add_argument("--calls", type=int, default=20, help="calls of status per server and attack")
    options.add_argument("--most-status", type=float, default=100, help="greatest p99 of a call of status, in ms")
    options.add_argument("--only", help="attacks with this name")
    options.add_argument("--table", type=pathlib.Path, help="file for the table")
    given = options.parse_args()
    site = Site(given.bin.resolve(), given.testing.resolve())
    print(HEAD, flush=True)
    lines, failures = [HEAD], 0
    for number, attack in enumerate(ATTACKS):
        if given.only and attack.name != given.only:
            continue
        row = Row(site, attack, given, number)
        lines.append(row.markdown())
        print(lines[-1], flush=True)
        failures += len(row.failures)
    if given.table:
        given.table.write_text("\n".join(lines) + "\n")
    site.job.send_signal(signal.SIGKILL)
    return 1 if failures else 0


if __name__ == "__main__":
    enter()
    sys.exit(main())
