#!/usr/bin/env python3
"""Measures the cost of Python's profiler while client/python/python_helper.py has it on, and the cost of its end on the main thread.

It needs no GPU and no job.

usage: python_profile.py [--pairs 20]

Both variants run alternately in one process. The results are medians over the pairs.
"""
import argparse
import pathlib
import platform
import statistics
import time

HELPER = pathlib.Path(__file__).resolve().parents[1] / "client" / "python" / "python_helper.py"


def tiny(i):
    return i + 1


def small_functions(n):
    for i in range(n):
        tiny(i)


def large_functions(n):
    for _ in range(n // 100):
        larger()


def larger():
    total = 0
    for i in range(1000):
        total += i * i % 7
    return total


def timed(work, n):
    begin = time.perf_counter()
    work(n)
    return time.perf_counter() - begin


def many_functions(count):
    source = "\n".join(f"def f{i}(): pass" for i in range(count))
    module = {}
    exec(source, module)
    return [module[f"f{i}"] for i in range(count)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=20)
    pairs = parser.parse_args().pairs
    helper = {"__builtins__": __builtins__}
    exec(compile(HELPER.read_text(), "<lockstep>", "exec"), helper)
    print("Python", platform.python_version())
    for name, work in (("calls of an empty function", small_functions), ("calls of 1000 turns of a loop", large_functions)):
        off, on = [], []
        for _ in range(pairs):
            off.append(timed(work, 100_000))
            assert helper["begin"]() is None
            on.append(timed(work, 100_000))
            assert isinstance(helper["end"](), bytes)
        ratio = statistics.median(b / a for a, b in zip(off, on))
        print(f"{name}: {statistics.median(off) * 1e3:.2f} ms off, {statistics.median(on) * 1e3:.2f} ms on, {ratio:.2f}x")
    for count in (100, 1000, 10_000):
        functions = many_functions(count)
        ends, sizes = [], []
        for _ in range(pairs):
            assert helper["begin"]() is None
            for function in functions:
                function()
            begin = time.perf_counter()
            sizes.append(len(helper["end"]()))
            ends.append(time.perf_counter() - begin)
        print(f"end with {count} functions: {statistics.median(ends) * 1e3:.2f} ms, {statistics.median(sizes)} bytes")


if __name__ == "__main__":
    main()
