"""Produced = stored + lost, for every rank and kind, whatever is in the way of the records.

produced  what the simulation wrote into CUPTI buffers inside the window: its own list in the truth files
stored    counted from records/ by tests/support/count_records.py, which shares no code with the product
lost      the report's
"""
import bisect
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from count_records import count_capture  # noqa: E402
from live_job import LiveJob, report_of, truths_of  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))


# The simulation's names for kinds, and ours.
KIND = {"kernel": "kernel", "memcpy": "memcpy", "memset": "memset", "runtime": "api", "driver": "api",
        "synchronization": "sync", "external_correlation": "external_correlation", "cuda_event": "cuda_event"}


def inside(stamps, t0, t1):
    return bisect.bisect_left(stamps, t1) - bisect.bisect_left(stamps, t0)


class Accounting(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-loss-")
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)

    def run_job(self, rank_args=(), env=None, trace_args=(), during=None, duration="2s"):
        with LiveJob(BIN, self.work, rank_args=("--forever", "--seed", "11", *rank_args), env=env) as job:
            job.wait_for_ranks()
            helper = threading.Thread(target=during) if during else None
            if helper:
                helper.start()
            done = job.trace(self.work / "capture", "--duration", duration, *trace_args)
            if helper:
                helper.join()
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return report_of(self.work / "capture"), truths_of(job.truth)

    def balance(self, report, truths):
        """Checks the equation for every rank and kind; returns the losses by stage."""
        manifest = json.loads((self.work / "capture" / "records" / "manifest.json").read_text())
        stored = count_capture(self.work / "capture")
        self.assertEqual(len(manifest["processes"]), 8)
        by_stage = {}
        for process in manifest["processes"]:
            rank, t0, t1 = process["rank"], process["t0_host_ns"], process["t1_host_ns"]
            truth, have = truths[rank], {}
            for file in process["files"]:
                for kind, rows in stored[file["name"]].items():
                    have[kind] = have.get(kind, 0) + rows
            losses = [loss for loss in report["capture"]["losses"] if loss["rank"] == rank]
            produced, dropped = {}, 0
            for name, stamps in truth["written"].items():
                if name in KIND:
                    produced[KIND[name]] = produced.get(KIND[name], 0) + inside(sorted(stamps), t0, t1)
            for stamps in truth["dropped"].values():
                dropped += inside(sorted(stamps), t0, t1)
            for kind, made in produced.items():
                lost = sum(loss["records"] for loss in losses if loss.get("kind") == kind and loss["stage"] != "cupti")
                self.assertEqual(made, have.get(kind, 0) + lost,
                                 f"rank {rank}, {kind}: produced {made}, stored {have.get(kind, 0)}, lost {lost}: {losses}")
            # CUPTI counts what it dropped without a kind, at each read of the counter.
            counted = sum(loss["records"] for loss in losses if loss["stage"] == "cupti")
            self.assertGreaterEqual(counted, dropped, f"rank {rank}: {losses}")
            self.assertLessEqual(counted, sum(len(s) for s in truth["dropped"].values()))
            self.assertGreater(sum(have.values()), 1000)
            for loss in losses:
                by_stage[loss["stage"]] = by_stage.get(loss["stage"], 0) + loss["records"]
        print("  lost:", by_stage or "nothing", " stored:", sum(sum(v.values()) for v in stored.values()), flush=True)
        return by_stage

    def test_nothing_is_lost_when_nothing_is_in_the_way(self):
        self.assertEqual(self.balance(*self.run_job()), {})

    def test_a_ring_of_64_kib_loses_and_counts(self):
        by_stage = self.balance(*self.run_job(env={"LOCKSTEP_RING_BYTES": "65536"}))
        self.assertGreater(by_stage.get("ring", 0), 0)

    def test_a_cupti_that_drops_2_percent_is_counted(self):
        by_stage = self.balance(*self.run_job(rank_args=("--drop-fraction", "0.02")))
        self.assertGreater(by_stage.get("cupti", 0), 0)

    def test_a_spool_of_1_mib_with_the_aggregator_stopped_for_3_s_loses_and_counts(self):
        with tempfile.TemporaryDirectory(prefix="lk-") as short:
            address = f"unix:{short}/aggregator.sock"
            aggregator = subprocess.Popen([str(BIN / "lockstep-aggregator"), "--listen", address, "--state-dir",
                                           str(self.work / "aggregator")], stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL, text=True)
            self.addCleanup(aggregator.stdout.close)
            try:
                aggregator.stdout.readline()  # its address: it is ready

                def stop_for_three_seconds():
                    # A busy machine begins the capture when it can: the stop must lie inside it, not at a time of the clock.
                    captures = self.work / "aggregator" / "captures"
                    by_when = time.monotonic() + 30
                    while time.monotonic() < by_when and not any(f.stat().st_size > 4096 for f in captures.rglob("*.lsr")):
                        time.sleep(0.02)
                    aggregator.send_signal(signal.SIGSTOP)
                    time.sleep(3.0)
                    aggregator.send_signal(signal.SIGCONT)

                by_stage = self.balance(*self.run_job(
                    rank_args=("--layers", "14", "--matmul", "20us", "--noise-ppm", "200000"), env={
                        "LOCKSTEP_SPOOL_BYTES": str(1 << 20), "LOCKSTEP_AGGREGATOR": address},
                    trace_args=("--aggregator", address), during=stop_for_three_seconds, duration="6s"))
                self.assertGreater(by_stage.get("spool", 0), 0)
            finally:
                aggregator.send_signal(signal.SIGCONT)
                aggregator.terminate()
                aggregator.wait(10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
