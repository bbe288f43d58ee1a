"""Checks produced = stored + lost for every rank and kind, under several causes of loss. The terms are those of
tests/support/accounting.py."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from accounting import accounts_of, inside  # noqa: E402
from late_ranks import repeat_when_late  # noqa: E402
from live_job import LiveJob, report_of, truths_of  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))
# Ranks with many records. They may fall behind the wall clock, because the equation holds for them, too.
BUSY = ("--layers", "14", "--matmul", "20us", "--noise-ppm", "200000")
# After a signal, a rank on a busy machine needs seconds to write its truth file.
KILL_LATE = {"OMPI_MCA_odls_base_sigkill_timeout": "5"}


class Accounting(unittest.TestCase):
    def check(self, judge, **job):
        """Captures a job, checks the equation, and calls `judge` with the losses by stage. Repeats all if the
        machine's load spoiled them."""
        def attempt(pace):
            judge(self.balance(*self.run_job(pace, **job)))
        repeat_when_late(attempt, lambda: self.job.output())

    def run_job(self, pace, own_pace=None, rank_args=(), env=None, trace_args=(), during=None, duration="2s"):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-loss-")
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        rank_args = ("--forever", "--seed", "11", *(own_pace or pace), *rank_args)
        with LiveJob(BIN, self.work, rank_args=rank_args, env={**KILL_LATE, **(env or {})}) as self.job:
            job = self.job
            job.wait_for_ranks()
            job.env["TMPDIR"] = str(self.work)  # there the capture's records are while it runs
            helper = threading.Thread(target=during) if during else None
            if helper:
                helper.start()
            done = job.trace(self.work / "capture", "--duration", duration, *trace_args)
            if helper:
                helper.join()
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return report_of(self.work / "capture"), truths_of(job.truth)

    def balance(self, report, truths):
        """Checks the equation for every rank and kind. Returns the losses by stage, without incomplete records."""
        manifest = json.loads((self.work / "capture" / "records" / "manifest.json").read_text())
        accounts = accounts_of(self.work / "capture", truths)
        self.assertEqual(len(manifest["processes"]), 8)
        self.assertEqual({truth["complete"] for truth in truths.values()}, {True}, "a rank was killed before it wrote its truth file")
        by_stage = {}
        for process in manifest["processes"]:
            rank, t0, t1 = process["rank"], process["t0_host_ns"], process["t1_host_ns"]
            truth = truths[rank]
            losses = [loss for loss in report["capture"]["losses"] if loss["rank"] == rank]
            dropped = sum(inside(sorted(stamps), t0, t1) for stamps in truth["dropped"].values())
            entries = [entry for entry in accounts if entry.rank == rank]
            for entry in entries:
                self.assertTrue(entry.balanced(), f"{entry}: {losses}")
                by_stage["client"] = by_stage.get("client", 0) - entry.excess
            # CUPTI counts dropped records without a kind, at each read of the counter.
            counted = sum(loss["records"] for loss in losses if loss["stage"] == "cupti")
            self.assertGreaterEqual(counted, dropped, f"rank {rank}: {losses}")
            self.assertLessEqual(counted, sum(len(s) for s in truth["dropped"].values()))
            self.assertGreater(sum(entry.stored for entry in entries), 1000)
            for loss in losses:
                by_stage[loss["stage"]] = by_stage.get(loss["stage"], 0) + loss["records"]
        by_stage = {stage: records for stage, records in by_stage.items() if records}
        print("  lost:", by_stage or "nothing", " stored:", sum(entry.stored for entry in accounts), flush=True)
        return by_stage

    def test_loses_no_record_without_a_fault(self):
        self.check(lambda by_stage: self.assertEqual(by_stage, {}))

    def test_counts_records_lost_in_a_ring_of_64_kib(self):
        def stop_for_two_seconds():
            wait_until(lambda: any(path.stat().st_size > 4096 for path in self.work.rglob("*.lsr")), "records of the capture")
            daemons = self.job.daemons()
            for signalled, seconds in ((signal.SIGSTOP, 2.0), (signal.SIGCONT, 0)):
                for pid in daemons:
                    os.kill(pid, signalled)
                time.sleep(seconds)

        self.check(lambda by_stage: self.assertGreater(by_stage.get("ring", 0), 0), own_pace=BUSY, env={"LOCKSTEP_RING_BYTES": "65536"},
                   during=stop_for_two_seconds, duration="4s")

    def test_counts_records_that_cupti_drops(self):
        self.check(lambda by_stage: self.assertGreater(by_stage.get("cupti", 0), 0), rank_args=("--drop-fraction", "0.02"))

    def test_counts_records_lost_in_a_full_spool(self):
        with tempfile.TemporaryDirectory(prefix="lk-") as short:
            address = f"unix:{short}/aggregator.sock"
            state = pathlib.Path(short) / "state"
            aggregator = subprocess.Popen([str(BIN / "lockstep-aggregator"), "--listen", address, "--state-dir", str(state)],
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            self.addCleanup(aggregator.stdout.close)
            try:
                aggregator.stdout.readline()  # the aggregator is ready when it prints its address

                def stop_for_three_seconds():
                    # The stop begins when the aggregator has stored records of this capture.
                    before = stored_bytes(state)
                    wait_until(lambda: stored_bytes(state) > before + 4096, "records of the capture")
                    aggregator.send_signal(signal.SIGSTOP)
                    time.sleep(3.0)
                    aggregator.send_signal(signal.SIGCONT)

                self.check(lambda by_stage: self.assertGreater(by_stage.get("spool", 0), 0),
                           own_pace=BUSY,
                           env={"LOCKSTEP_SPOOL_BYTES": str(1 << 18), "LOCKSTEP_AGGREGATOR": address},
                           trace_args=("--aggregator", address), during=stop_for_three_seconds, duration="6s")
            finally:
                aggregator.send_signal(signal.SIGCONT)
                aggregator.terminate()
                aggregator.wait(60)


def stored_bytes(state):
    return sum(file.stat().st_size for file in (state / "captures").rglob("*.lsr"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
