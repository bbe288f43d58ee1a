"""Checks a long capture of tiny kernels: memory must not grow, no time stamp may be missing, and losses must
be counted."""
import os
import pathlib
import time

import captures
from helpers import BackgroundTrace, cuda_loop, gpu_memory, registers, why
from section_cuda import FLOOD
from session import Session

LEAST_RECORDS = 5_000_000
GROWTH_BYTES = 64 << 20  # limit for the second half of the window
STAMPLESS = "stamp"  # word in the reason of such losses
SECONDS, SECONDS_SIMULATED = 20, 2


class Usage:
    """Memory and processor time of a process, from /proc."""

    def __init__(self, pid):
        self.pid, self.samples = pid, []

    def sample(self):
        try:
            status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
            fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return
        resident = next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS")), 0)
        self.samples.append((time.monotonic(), resident, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")))

    def half(self, second):
        """Returns (growth in bytes, processor seconds per second) in one half of the samples."""
        middle = len(self.samples) // 2
        part = self.samples[middle:] if second else self.samples[:middle + 1]
        if len(part) < 2:
            return 0, 0.0
        return part[-1][1] - part[0][1], (part[-1][2] - part[0][2]) / max(part[-1][0] - part[0][0], 1e-9)


def long_capture(setup, table):
    with Session(setup, "long") as session:
        workload = session.workload("loop", cuda_loop(setup, session, "loop", *FLOOD), session.under_run())
        if not registers(table, session, workload):
            return
        time.sleep(1)
        seconds = SECONDS_SIMULATED if setup.simulate else SECONDS
        before = gpu_memory(setup, session, workload.pid)
        trace = BackgroundTrace(session, "capture", "--duration", f"{seconds}s", timeout=seconds + 60)
        time.sleep(0.7)
        usages = {"program": Usage(workload.pid), "daemon": Usage(session.daemon.pid)}
        end = time.monotonic() + seconds - 0.5
        while time.monotonic() < end:
            for usage in usages.values():
                usage.sample()
            time.sleep(0.1 if setup.simulate else 0.5)
        memory = f"before {before}, at its end {gpu_memory(setup, session, workload.pid)}"
        trace.join(seconds + 60)
        workload.stop()
        if not table.check("the capture", trace.code == 0, f"exit {trace.code} after {trace.seconds:.1f} s: {why(trace.output)}", "exit 0"):
            return
        judge(setup, table, captures.totals(trace.folder), usages, seconds)
        table.fact("GPU memory of the program", memory)


def judge(setup, table, totals, usages, seconds):
    rows, losses = totals
    stored, lost = sum(rows.values()), sum(loss["records"] for loss in losses)
    stampless = sum(loss["records"] for loss in losses if STAMPLESS in loss["reason"])
    table.judge("records of a long capture", stored + lost >= LEAST_RECORDS, f"{stored} stored, {lost} lost in {seconds} s "
                f"({stored / seconds:.0f} per second); {[(l['stage'], l['kind'], l['reason'], l['records']) for l in losses[:4]]}",
                f"{LEAST_RECORDS} and more")
    table.check("records without a stamp", stored > 0 and stampless == 0, f"{stampless} of {stored + lost}", "0")
    for name, usage in usages.items():
        (grown_first, cpu_first), (grown, cpu) = usage.half(False), usage.half(True)
        at_end = usage.samples[-1][1] if usage.samples else 0
        table.check(f"memory of the {name} in the second half of the capture", len(usage.samples) > 3 and grown < GROWTH_BYTES,
                    f"{grown / 1e6:+.1f} MB (first half {grown_first / 1e6:+.1f} MB), at its end {at_end / 1e6:.0f} MB",
                    f"less than {GROWTH_BYTES >> 20} MiB more")
        table.fact(f"processor time of the {name}", f"{cpu_first:.2f} cores in the first half, {cpu:.2f} in the second")
