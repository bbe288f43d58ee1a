#!/usr/bin/env python3
"""./dev bench fleet: how fast a capture of many nodes begins, and how soon after its window the verdict is there.

  fleet_bench.py BIN [--captures N] [--only ROW-PART] [--json FILE]

Daemons of lockstep-sim-fleet, an aggregator and `lockstep trace` run on this machine and share its cores, so the figures are
upper limits. BIN has the three programs. Each row is measured over N captures, the largest jobs over a third of them. All
moments are CLOCK_REALTIME of this machine:

  start      before the CLI's process is started (this script)
  received   the aggregator has the request (received_unix_ns of its log line capture_begins)
  armed      the last daemon has handed its answer to the system (armed_last_ns of the fleet's line)
  T1         the end of the window (t1_ns of the same line)
  printed    this script has the first line of the CLI's stdout

Floors, in the same run: the same arms and answers between the same daemons and a bare gRPC server; the start of the CLI for
--version; decoding the same blocks on one thread. docs/performance.md has the goals."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

CLOCKS_OF_MANY = ("--clock-burst", "4", "--clock-pause", "1s")


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def wait_until(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"fleet_bench: {what}: not within {seconds} s")
        time.sleep(0.02)


class Cluster:
    """An aggregator with a fleet of daemons."""

    def __init__(self, programs, daemons, *options):
        self.programs, self.daemons, self.options = programs, daemons, options

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lockstep-fleet-")
        self.work = pathlib.Path(self.folder.name)
        self.address = f"unix:{self.work}/a.sock"
        self.log = open(self.work / "log", "wb")
        self.aggregator = subprocess.Popen([self.programs / "lockstep-aggregator", "--listen", self.address, "--state-dir", self.work / "state",
                                            "--keep-captures", "2"], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        wait_until((self.work / "a.sock").exists, "the aggregator listens")
        self.fleet = start_fleet(self.programs, self.address, self.daemons, *self.options)
        json.loads(self.fleet.stdout.readline())
        wait_until(lambda: self.ranks() >= self.daemons, "the aggregator has all ranks")
        time.sleep(1)  # the aggregator's log has a limit per second, and writes a line for each daemon
        return self

    def __exit__(self, *_):
        for process in (self.fleet, self.aggregator):
            process.terminate()
            process.wait(30)
        self.fleet.stdout.close()
        self.log.close()
        self.folder.cleanup()

    def ranks(self):
        done = subprocess.run([self.programs / "lockstep", "status", "--aggregator", self.address, "--format", "json"], capture_output=True,
                              text=True, check=True)
        return sum(len(daemon["ranks"]) for daemon in json.loads(done.stdout)["daemons"])

    def capture(self, number, *options):
        """Runs one capture. Returns the fleet's line with the moments of the CLI and of the aggregator."""
        start = time.time_ns()
        cli = subprocess.Popen([self.programs / "lockstep", "trace", "--aggregator", self.address, "-o", self.work / f"capture-{number}", *options],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "GRPC_VERBOSITY": "NONE"})
        # Read while the CLI writes, so that a full pipe does not stop it.
        errors = tempfile.TemporaryFile()
        copier = subprocess.Popen(["cat"], stdin=cli.stderr, stdout=errors)
        first = cli.stdout.readline()
        printed = time.time_ns()
        cli.stdout.read()
        code = cli.wait()
        ended = time.time_ns()
        copier.wait()
        if code != 0 or not first:
            errors.seek(0)
            sys.exit(f"fleet_bench: lockstep trace ended with {code}:\n" + errors.read().decode()[-2000:])
        moments = json.loads(self.fleet.stdout.readline())
        moments.update(start_ns=start, printed_ns=printed, ended_ns=ended, first_line=first.strip(),
                       received_ns=self.received(moments["capture"]))
        subprocess.run(["rm", "-rf", self.work / f"capture-{number}"], check=True)
        return moments

    def received(self, capture):
        found = re.search(rf"capture={capture} .*received_unix_ns=(\d+)", (self.work / "log").read_text())
        if not found:
            sys.exit(f"fleet_bench: the aggregator's log lacks the begin of capture {capture}")
        return int(found[1])


def start_fleet(programs, address, daemons, *options, stderr=None):
    return subprocess.Popen([programs / "lockstep-sim-fleet", "--aggregator", address, "--daemons", str(daemons), *options],
                            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, stderr=stderr, text=True)


def bare_rounds(programs, daemons, rounds):
    """Milliseconds from the first arm to the last answer, with a bare server."""
    with tempfile.TemporaryDirectory(prefix="lockstep-fleet-") as folder:
        address = f"unix:{folder}/a.sock"
        server = subprocess.Popen([programs / "lockstep-sim-fleet", "--aggregator", address, "--daemons", str(daemons), "--bare-server", str(rounds)],
                                  stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        wait_until(pathlib.Path(folder, "a.sock").exists, "the bare server listens")
        # The server ends first, which the fleet reports as an error.
        fleet = start_fleet(programs, address, daemons, "--clock-burst", "1", "--clock-pause", "10s", stderr=subprocess.DEVNULL)
        line = json.loads(server.stdout.readline())
        fleet.terminate()
        for process in (fleet, server):
            process.wait(30)
            process.stdout.close()
    return [ns / 1e6 for ns in line["rounds_ns"]]


def cli_starts(programs, times):
    def once():
        begun = time.monotonic_ns()
        subprocess.run([programs / "lockstep", "--version"], check=True, stdout=subprocess.DEVNULL)
        return (time.monotonic_ns() - begun) / 1e6
    return [once() for _ in range(times)]


class Table:
    def __init__(self, only):
        self.only, self.rows = only, []

    def wants(self, *names):
        return any(self.only in name for name in names)

    def add(self, name, values, goal, floor_name, floor):
        if not self.wants(name):
            return
        row = {"row": name, "unit": "ms", "n": len(values), "p50": percentile(values, 0.5), "p99": percentile(values, 0.99), "max": max(values),
               "min": min(values), "goal_p99": goal, "floor": floor_name, "floor_p50": percentile(floor, 0.5), "floor_p99": percentile(floor, 0.99)}
        self.rows.append(row)
        print(f"{name}: p50 {row['p50']:.1f} ms, p99 {row['p99']:.1f} ms, max {row['max']:.1f} ms of {len(values)}; goal p99 {goal:g} ms; floor "
              f"({floor_name}) p50 {row['floor_p50']:.1f} ms, ratio {row['p50'] / row['floor_p50']:.1f}", flush=True)


def measure_arming(programs, table, daemons, captures, goal):
    name = f"request to last of {daemons} daemons armed"
    start = f"CLI start to request, {daemons} daemons"
    if not table.wants(name, start):
        return
    clocks = CLOCKS_OF_MANY if daemons > 64 else ("--clock-burst", "4")
    with Cluster(programs, daemons, "--rows", "300", *clocks) as cluster:
        found = [cluster.capture(i, "--duration", "100ms", "--formats", "none") for i in range(captures)]
    table.add(name, [(m["armed_last_ns"] - m["received_ns"]) / 1e6 for m in found], goal, "the same arms from a bare server",
              bare_rounds(programs, daemons, captures * 3))
    table.add(start, [(m["received_ns"] - m["start_ns"]) / 1e6 for m in found], 20, "lockstep --version", cli_starts(programs, captures))


def measure_verdict(programs, table, name, daemons, rows, captures, goal):
    if not table.wants(name):
        return
    clocks = CLOCKS_OF_MANY if daemons > 64 else ("--clock-burst", "4")
    slow = daemons // 2
    with Cluster(programs, daemons, "--rows", str(rows), "--slow-rank", str(slow), "--measure-decode", *clocks) as cluster:
        found = [cluster.capture(i, "--duration", "1s") for i in range(captures)]
    for m in found:
        if f"rank {slow} " not in m["first_line"]:
            sys.exit(f"fleet_bench: the verdict does not name rank {slow}: {m['first_line']}")
    table.add(name, [(m["printed_ns"] - m["t1_ns"]) / 1e6 for m in found], goal, "decoding the same blocks",
              [m["decode_cpu_ns"] / 1e6 for m in found])
    last = found[-1]
    print(f"  {last['rows']} rows, {last['bytes'] / 1e6:.1f} MB; medians after the end of the window: last row acknowledged "
          f"{percentile([(m['acked_last_ns'] - m['t1_ns']) / 1e6 for m in found], 0.5):.0f} ms, `lockstep trace` ended "
          f"{percentile([(m['ended_ns'] - m['t1_ns']) / 1e6 for m in found], 0.5):.0f} ms", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--captures", type=int, default=30)
    parser.add_argument("--only", default="", help="part of a row's name")
    parser.add_argument("--json", type=pathlib.Path, help="file for the rows")
    arguments = parser.parse_args()
    programs, captures = arguments.bin.resolve(), arguments.captures
    few = max(captures // 3, 3)
    table = Table(arguments.only)
    loads = [os.getloadavg()[0]]
    print(f"load {loads[0]:.2f}, {os.cpu_count()} cores", flush=True)
    measure_arming(programs, table, 64, captures, 10)
    measure_arming(programs, table, 1024, few, 100)
    measure_verdict(programs, table, "window end to first line, 8 ranks of 3,000 rows", 8, 3000, captures, 300)
    measure_verdict(programs, table, "window end to first line, 64 ranks, 700,000 rows", 64, 10_990, few, 1000)
    measure_verdict(programs, table, "window end to first line, 1,024 ranks of 3,000 rows", 1024, 3000, few, 1500)
    loads.append(os.getloadavg()[0])
    print(f"load {loads[1]:.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"load": loads, "cores": os.cpu_count(), "rows": table.rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
