"""Runs steps of a program on command, so that several programs can take turns on one GPU. turn_driver.py
sends the commands.

Each command is a line on stdin. Each answer is a JSON line in the FIFO of --answers:

  prepare WORKLOAD       builds it and runs some warm-up steps
  turn WORKLOAD STEPS    {"ns": [one per step], "launches": per step, "free_bytes": of the GPU, "capturing": [before, after]}
  capture-on             begins the capture that `lockstep trace --start-on-profiler-api` has armed; capture-off ends it
  profile-on KIND        starts PyTorch's profiler, `cuda` or `cpu+cuda`; profile-off stops it
  ranges N               {"ns": of one NVTX range pushed and popped, the median of N}
  quit

An answer with "error" states why a command failed. The program continues.
"""
import argparse
import ctypes
import json
import os
import statistics
import sys
import time

BEGINS_WITHIN_S = 20


class Client:
    """Lockstep's C API, if this process has the client."""

    def __init__(self):
        path = os.environ.get("NVTX_INJECTION64_PATH", "")
        self.lib = ctypes.CDLL(path) if "liblockstep_client" in path else None

    def capturing(self):
        return bool(self.lib and self.lib.lockstep_capturing())

    def wait(self, begin):
        """Starts or stops the capture. A start counts only after the capture is armed, and a stop only while
        it runs. Both are therefore repeated until they take effect."""
        if self.lib is None:
            raise RuntimeError("this process has no client")
        asked = time.monotonic()
        while self.capturing() != begin:
            if time.monotonic() - asked > BEGINS_WITHIN_S:
                raise RuntimeError(f"no capture {'began' if begin else 'ended'} within {BEGINS_WITHIN_S} s")
            if begin:
                self.lib.lockstep_profiler_start()
            else:
                self.lib.lockstep_profiler_stop()
            time.sleep(0.002)
        return {"seconds": round(time.monotonic() - asked, 3)}

    def ranges(self, count):
        if self.lib is None:
            raise RuntimeError("this process has no client")
        return self.time(count, lambda: self.lib.lockstep_range_push(b"probe"), self.lib.lockstep_range_pop)

    @staticmethod
    def time(count, push, pop):
        taken = []
        for _ in range(count):
            began = time.perf_counter_ns()
            push()
            pop()
            taken.append(time.perf_counter_ns() - began)
        return {"ns": statistics.median(taken)}


class Worker:
    """`workloads` maps a name to a function that builds it and returns (step, launches of one step). A step
    ends when the GPU is done. Subclasses add their own commands."""

    def __init__(self, workloads):
        self.workloads, self.built, self.client = workloads, {}, Client()

    def free_bytes(self):
        return 0

    def prepare(self, name):
        if name not in self.built:
            self.built[name] = self.workloads[name]()
            for _ in range(10):
                self.built[name][0]()
        return {}

    def turn(self, name, steps):
        self.prepare(name)
        step, launches = self.built[name]
        before, taken = self.client.capturing(), []
        start_ns = time.time_ns()
        for _ in range(steps):
            began = time.perf_counter_ns()
            step()
            taken.append(time.perf_counter_ns() - began)
        return {"workload": name, "start_ns": start_ns, "end_ns": time.time_ns(), "ns": taken, "launches": launches,
                "free_bytes": self.free_bytes(), "capturing": [before, self.client.capturing()]}

    def profile(self, kind):
        raise RuntimeError("PyTorch's profiler is not in this program")

    def ranges(self, count):
        return self.client.ranges(count)

    def obey(self, command, *rest):
        if command == "prepare":
            return self.prepare(rest[0])
        if command == "turn":
            return self.turn(rest[0], int(rest[1]))
        if command in ("capture-on", "capture-off"):
            return self.client.wait(command == "capture-on")
        if command in ("profile-on", "profile-off"):
            return self.profile(rest[0] if rest else None)
        if command == "ranges":
            return self.ranges(int(rest[0]))
        raise RuntimeError(f"no command {command}")

    def serve(self, answers, **ready):
        with open(answers, "w") as out:
            def answer(**fields):
                out.write(json.dumps(fields) + "\n")
                out.flush()

            answer(event="ready", workloads=sorted(self.workloads), **ready)
            for line in sys.stdin:
                command, *rest = line.split()
                if command == "quit":
                    break
                try:
                    answer(event=command, **self.obey(command, *rest))
                except Exception as error:  # a failed command must not end the program
                    answer(event=command, error=f"{type(error).__name__}: {error}"[:500])


def answers_path():
    parser = argparse.ArgumentParser()
    parser.add_argument("--answers", required=True, help="a FIFO")
    return parser.parse_args().answers
