#!/usr/bin/env python3
"""Measures what `lockstep run --mode nccl` costs while nobody asks: in the application's thread, in NCCL's proxy thread, for a whole
step, in the daemon, and on the wire to a permanent aggregator. The ranks run on the simulated stack.

usage: progress_cost.py BUILD [--pairs 20] [--seconds 20]

BUILD is a build folder with bin/ and bench/. Each row is a mean with its 95 % interval: of repeated runs by Student's t, of ratios by
bootstrap over pairs that run one after the other. Other work on the machine makes the intervals wide.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support"))
from loop_job import loop_job  # noqa: E402

RANKS = 2
# Student's t of 95 %, by the number of values less one; 30 stands for more.
T95 = {4: 2.78, 9: 2.26, 14: 2.14, 19: 2.09, 24: 2.06, 29: 2.05, 30: 2.0}


def interval(values):
    """Returns the mean and the half width of its 95 % interval."""
    degrees = len(values) - 1
    t = next((T95[n] for n in sorted(T95) if degrees <= n), 2.0)
    return statistics.mean(values), t * statistics.stdev(values) / len(values) ** 0.5


def ratio_interval(pairs, rounds=4000):
    """Returns the ratio of the sums, and the bounds of its 95 % interval."""
    drawn = random.Random(1)
    ratio = lambda some: sum(b for _, b in some) / sum(a for a, _ in some)  # noqa: E731
    ratios = sorted(ratio(drawn.choices(pairs, k=len(pairs))) for _ in range(rounds))
    return ratio(pairs), ratios[rounds // 40], ratios[-rounds // 40]


def say(name, text):
    print(f"{name:<66} {text}", flush=True)


def plugin_calls(build, runs):
    rows = []
    for _ in range(runs):
        done = subprocess.run([build / "bench/nvtx_nccl_bench", "--benchmark_filter=Progress", "--benchmark_format=json"], check=True,
                              capture_output=True, text=True)
        rows.append(json.loads(done.stdout)["benchmarks"][0])
    for counter, name in (("launch_ns", "a collective, application's thread"), ("channel_ns", "a channel, NCCL's proxy thread"),
                          ("network_operation_ns", "a network operation, NCCL's proxy thread"),
                          ("network_step_ns", "a network step, NCCL's proxy thread"), ("clock_ns", "floor: one read of the clock")):
        mean, half = interval([row[counter] for row in rows])
        clocks, around = interval([row[counter] / row["clock_ns"] for row in rows])
        say(name, f"{mean:.0f} ± {half:.0f} ns, {clocks:.1f} ± {around:.1f} reads of the clock")


def step_us(build, work, steps, launcher):
    """Runs a job, and returns the mean time of its steps."""
    (work / "id").unlink(missing_ok=True)
    program = [build / "bin/lockstep_train_loop", "--id-file", work / "id", "--steps", str(steps)]
    env = dict(os.environ, LD_LIBRARY_PATH=str(build / "lib/sim_stack"), LOCKSTEP_SOCKET=str(work / "client.sock"),
               XDG_STATE_HOME=str(work / "state"), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(["mpiexec", "--oversubscribe", "--bind-to", "none", "-n", str(RANKS), *launcher, *program], env=env, text=True,
                          capture_output=True)
    if " us, every sum is right" not in done.stdout:
        sys.exit(f"the job failed: {done.stdout}{done.stderr}")
    return float(done.stdout.split(" steps of ")[1].split(" us")[0])


def steps(build, pairs, count=400):
    with tempfile.TemporaryDirectory(prefix="lk-") as folder:
        work = pathlib.Path(folder)
        run = [build / "bin/lockstep", "run", "--mode", "nccl", "--"]
        step_us(build, work, count, run)
        measured = []
        for pair in range(pairs):
            both = [(), run]
            times = {len(launcher): step_us(build, work, count, launcher) for launcher in (both if pair % 2 else reversed(both))}
            measured.append((times[0], times[len(run)]))
    ratio, low, high = ratio_interval(measured)
    mean, half = interval([without for without, _ in measured])
    say("a step of train_loop, 2 ranks, with progress / without", f"{ratio:.4f} [{low:.4f}, {high:.4f}]; without {mean:.0f} ± {half:.0f} us")
    halves = [(a, b) for (a, _), (b, _) in zip(measured[::2], measured[1::2])]
    ratio, low, high = ratio_interval(halves)
    say("floor: without / without, of runs that follow each other", f"{ratio:.4f} [{low:.4f}, {high:.4f}]")


class CountingProxy:
    """Passes connections on from one Unix socket to another, and counts the bytes to it."""

    def __init__(self, path, target):
        self.target, self.to_target, self.from_target = target, 0, 0
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.server.accept()
            far = socket.socket(socket.AF_UNIX)
            far.connect(self.target)
            for source, sink, name in ((near, far, "to_target"), (far, near, "from_target")):
                threading.Thread(target=self.copy, args=(source, sink, name), daemon=True).start()

    def copy(self, source, sink, name):
        try:
            while data := source.recv(1 << 16):
                setattr(self, name, getattr(self, name) + len(data))
                sink.sendall(data)
        except OSError:
            pass
        sink.close()


def usage(pid):
    """Returns the processor time in seconds, and how often its threads have gone to sleep."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    sleeps = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        text = (task / "status").read_text()
        sleeps += int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), sleeps


def watch_daemon(job, seconds, windows=5):
    """Returns processor seconds and sleeps of the daemon per second, in each window."""
    daemon, = job.daemons()
    rows = []
    for _ in range(windows):
        before = usage(daemon)
        time.sleep(seconds / windows)
        after = usage(daemon)
        rows.append([(a - b) * windows / seconds for a, b in zip(after, before)])
    return [list(column) for column in zip(*rows)]


def daemon_rows(name, job, seconds):
    processor, sleeps = watch_daemon(job, seconds)
    mean, half = interval(processor)
    turns, around = interval(sleeps)
    say(name, f"{1e3 * mean:.1f} ± {1e3 * half:.1f} ms of a processor and {turns:.1f} ± {around:.1f} wake-ups per second")


def last_step(job, address):
    done = job.cli("status", "--aggregator", f"unix:{address}", "--format", "json")
    jobs = json.loads(done.stdout)["jobs"] if done.returncode == 0 else []
    return jobs[0].get("last_step") or 0 if jobs else 0


def daemon_and_wire(build, seconds):
    with tempfile.TemporaryDirectory(prefix="lk-") as folder:
        work = pathlib.Path(folder)
        with loop_job(build / "bin", work / "job", RANKS, "none", 0) as job:
            job.wait_for_ranks()
            daemon_rows("the daemon, 2 ranks of 50 steps a second, nobody asks", job, seconds)
            job.signal_ranks(signal.SIGSTOP)
            time.sleep(1)
            daemon_rows("the same, while no rank moves", job, seconds)
            job.signal_ranks(signal.SIGCONT)
    with tempfile.TemporaryDirectory(prefix="lk-") as folder:
        work = pathlib.Path(folder)
        address, counted = str(work / "aggregator.sock"), str(work / "counted.sock")
        log = open(work / "log", "w")
        aggregator = subprocess.Popen([build / "bin/lockstep-aggregator", "--listen", f"unix:{address}", "--state-dir", work / "state"],
                                      stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while not os.path.exists(address):
            time.sleep(0.05)
        proxy = CountingProxy(counted, address)
        with loop_job(build / "bin", work / "job", RANKS, "none", 0, env={"LOCKSTEP_AGGREGATOR": f"unix:{counted}"}) as job:
            job.wait_for_ranks()
            while last_step(job, address) < 100:
                time.sleep(0.5)
            bytes_per_step = []
            for _ in range(5):
                before, step = proxy.to_target, last_step(job, address)
                time.sleep(seconds / 5)
                done = last_step(job, address) - step
                bytes_per_step.append((proxy.to_target - before) / done / RANKS)
            daemon_rows("the daemon, with a permanent aggregator", job, seconds)
        aggregator.terminate()
        aggregator.wait()
    mean, half = interval(bytes_per_step)
    say("on the wire to the aggregator, per rank and step, all included", f"{mean:.0f} ± {half:.0f} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=20, help="of each watch of the daemon (%(default)s)")
    args = parser.parse_args()
    build = args.build.resolve()
    print(f"load of the machine {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
    plugin_calls(build, args.pairs)
    steps(build, args.pairs)
    daemon_and_wire(build, args.seconds)


if __name__ == "__main__":
    main()
