"""Runs Lockstep's programs under faults, again and again, and checks their promises (docs/reliability.md).

  soak_test.py BIN [--short] [--only ROW] [--times N] [--seed N] [-o FILE] [--list]

Prints a Markdown table with one row per fault. Exits with 1 if a promise of a row does not hold. A row that this
machine cannot run is left out with its reason."""
import argparse
import contextlib
import fnmatch
import os
import pathlib
import random
import subprocess
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import own_namespaces  # noqa: E402
from cluster import Programs, Site, temporary  # noqa: E402
from row import INSIDE, Turn  # noqa: E402

import client_rows  # noqa: E402
import disk_rows  # noqa: E402
import file_rows  # noqa: E402
import hang_rows  # noqa: E402
import limit_rows  # noqa: E402
import network_rows  # noqa: E402
import process_rows  # noqa: E402

ROWS = [*process_rows.ROWS, *network_rows.ROWS, *disk_rows.ROWS, *limit_rows.ROWS, *file_rows.ROWS, *client_rows.ROWS, *hang_rows.ROWS]
HEAD = ("| row | fault | runs | held | p99 of a CUDA call, quiet / fault, µs | figures |\n"
        "|---|---|---|---|---|---|")


class Result:
    """Runs a row `times` times."""

    def __init__(self, row, given, folder):
        self.row, self.given, self.folder = row, given, folder
        self.failures, self.figures, self.series, self.calls, self.runs = [], {}, [], [], 0
        self.times = given.times or (1 if given.short else row.times)
        began = time.monotonic()
        while self.runs < self.times:
            self.run_some()
        self.seconds = time.monotonic() - began

    def run_some(self):
        """Runs the row until it is done, or until a failure makes another site necessary."""
        begun, self.series = self.runs, []
        try:
            with self.site() as site:
                for _ in range(0 if site is None else 1 if self.given.short else 3):
                    site.quiet_capture()
                while self.runs < self.times:
                    self.runs += 1
                    self.row.run(self.turn(site))
            if site:
                self.note(site)
        except Exception as failure:  # whatever a broken run raises is a failed run
            self.runs = max(self.runs, begun + 1)
            text = f"{self.row.name}, run {self.runs} of seed {self.given.seed}: {failure}"
            self.failures.append(str(failure))
            print(text if isinstance(failure, AssertionError) else text + "\n" + traceback.format_exc(), file=sys.stderr, flush=True)

    def site(self):
        if self.row.site is None:
            return contextlib.nullcontext()
        return Site(Programs(self.given.bin), self.folder / f"site-{self.runs}", **self.row.site)

    def turn(self, site):
        work = self.folder / f"run-{self.runs}"
        work.mkdir(exist_ok=True)
        draw = random.Random(f"{self.given.seed} {self.row.name} {self.runs}")
        return Turn(Programs(self.given.bin), work, draw, self.runs - 1, self.runs >= self.times, site, self.figures, self.series)

    def note(self, site):
        self.turn(site).count("records compared", site.compared)
        if medians := site.call_times.medians_ns():
            self.calls.append("{:.0f} / {:.0f}".format(*(ns / 1e3 for ns in medians)))
            if site.call_times.slower():
                self.failures.append(f"CUDA calls took {medians[1] / 1e3:.0f} µs under the fault, {medians[0] / 1e3:.0f} µs without (p99)")

    def markdown(self):
        calls = ", ".join(self.calls) or "–"
        figures = "; ".join(f"{name}: {text}" for name, (_, text) in sorted(self.figures.items())) or "–"
        held = self.runs - min(self.runs, len(self.failures))
        return f"| `{self.row.name}` | {self.row.text} | {self.runs} | {'all' if not self.failures else f'**{held}**'} | {calls} | {figures} |"


def options():
    given = argparse.ArgumentParser(prog="./dev soak", description=__doc__.splitlines()[0])
    given.add_argument("bin", type=pathlib.Path, help=argparse.SUPPRESS)
    given.add_argument("--short", action="store_true", help="a few rows, once each, in a minute")
    given.add_argument("--only", metavar="ROW", action="append", help="the rows with this name, with * and ?; may be repeated")
    given.add_argument("--times", type=int, metavar="N", help="runs of each row, in place of its own number")
    given.add_argument("--seed", type=int, default=1, help="seed of the random moments")
    given.add_argument("-o", "--output", type=pathlib.Path, metavar="FILE", help="file for the table")
    given.add_argument("--list", action="store_true", help="list the rows")
    return given


def chosen(given):
    rows = [row for row in ROWS if not given.only or any(fnmatch.fnmatchcase(row.name, name) for name in given.only)]
    if not rows:
        sys.exit(f"soak: no row is named {', '.join(given.only)}; --list shows the names")
    return [row for row in rows if row.short or not given.short]


def main(given):
    lines, failed = [HEAD], []
    print(HEAD, flush=True)
    for row in chosen(given):
        if why := row.missing():
            print(f"soak: {row.name} is left out: it {why}", file=sys.stderr, flush=True)
            continue
        with temporary(f"soak-{row.name}-") as folder:
            result = Result(row, given, pathlib.Path(folder))
        lines.append(result.markdown())
        print(f"{lines[-1]} ({result.seconds:.0f} s)", flush=True)
        failed += [row.name] if result.failures else []
    if given.output:
        given.output.write_text("\n".join(lines) + "\n")
    if failed:
        print(f"soak: not all promises held in {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def enter():
    """Enters namespaces of its own, if the machine allows it. Otherwise the rows that need them are left out."""
    if os.environ.get(INSIDE) or own_namespaces.impossible(("unshare", "ip", "mount"), PROBE):
        return
    own_namespaces.enter(INSIDE, ("unshare", "ip", "mount"), PROBE, "./dev install")


PROBE = "mount -t tmpfs none /mnt && ip link set lo up"

if __name__ == "__main__":
    wanted = options().parse_args()
    wanted.bin = wanted.bin.resolve()
    if wanted.list:
        sys.exit(print("\n".join(f"{row.name:20} {row.times:5} runs  {row.text}" for row in ROWS)))
    enter()
    if os.environ.get(INSIDE):
        subprocess.run(["sh", "-c", "mount --make-rprivate / && ip link set lo up"], check=True)
    sys.exit(main(wanted))
