#!/usr/bin/env python3
"""Tests the generator itself: its jobs must be possible and its truths right. It runs no program of the
product."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import table  # noqa: E402
from engine import COMMUNICATION, COMPUTE, Collective, Engine, Event, Gap, Launch, Op, Rank, Sync  # noqa: E402
from faults import KINDS  # noqa: E402
from generate import generate  # noqa: E402
from job import SHAPES, Job, draw, possible  # noqa: E402
from workload import GEMM, NCCL, NORM, schedule  # noqa: E402


def run(programs, depth=1000, slowdown=0.0, comm_slowdown=0.0):
    Engine([Rank(p, depth, slowdown, 0.0) for p in programs], comm_slowdown).run()


def kernel(rank, work, kernel_class=GEMM, stream=7):
    return Op(rank, stream, COMPUTE, kernel_class, work, lead=0.0, call=10.0)


def part(rank, coll, member, stream=15):
    op = Op(rank, stream, COMMUNICATION, NCCL["all_reduce"], 0.0, lead=0.0, call=10.0)
    op.coll, op.member = coll, member
    return op


class EngineTest(unittest.TestCase):
    def test_a_collective_ends_after_its_last_member_arrives(self):
        coll = Collective(0, 0, "all_reduce", "all", 2, 100.0, [0.0, 7.0], 0, (0, 0))
        a, b = part(0, coll, 0), part(1, coll, 1)
        run([[Launch(a)], [Gap(500.0), Launch(b)]])
        self.assertEqual((a.start, a.end), (0.0, 600.0))
        self.assertEqual((b.start, b.end), (500.0, 607.0))

    def test_kernels_are_slower_only_during_communication(self):
        coll = Collective(0, 0, "all_reduce", "all", 2, 100.0, [0.0, 0.0], 0, (0, 0))
        first = kernel(0, 1000.0)
        run([[Launch(first), Launch(part(0, coll, 0))], [Gap(200.0), Launch(part(1, coll, 1))]], slowdown=1.25)
        # Communication takes from 10 to 300 on rank 0. Compute-bound kernels take 0.8 of the slowdown: half
        # speed for 290.
        self.assertAlmostEqual(first.end, 1000.0 + 290.0 / 2)

    def test_communication_slows_memory_bound_kernels_more(self):
        ends = []
        for kernel_class in (GEMM, NORM):
            coll = Collective(0, 0, "all_reduce", "all", 1, 100.0, [0.0], 0, (0, 0))
            op = kernel(0, 1000.0, kernel_class)
            run([[Launch(op), Launch(part(0, coll, 0))]], slowdown=0.5)
            ends.append(op.end)
        self.assertLess(ends[0], ends[1])

    def test_a_full_launch_queue_blocks_the_host(self):
        ops = [kernel(0, 1000.0) for _ in range(5)]
        run([[Launch(op) for op in ops]], depth=2)
        self.assertEqual(ops[1].launched, 10.0)
        # The third launch blocks inside its call until the first op ends.
        self.assertEqual(ops[2].launched, 20.0)
        self.assertEqual(ops[2].call_end, 1010.0)
        self.assertEqual(ops[4].end, 5000.0)

    def test_events_order_streams_and_a_sync_blocks_on_one(self):
        a, b = kernel(0, 1000.0), kernel(0, 50.0, stream=9)
        sync = Sync(9, call=0.0)
        run([[Launch(a), Event(7, 9, call=1.0), Launch(b), sync]])
        self.assertEqual(b.start, a.end)
        self.assertEqual(sync.end, b.end)

    def test_only_an_unbuffered_send_waits_for_its_receiver(self):
        for buffered, sender_ends in ((True, 100.0), (False, 600.0)):
            coll = Collective(0, 0, "send", "p2p", 2, 100.0, [0.0, 0.0], 0, (0, 0), buffered)
            a, b = part(0, coll, 0), part(1, coll, 1)
            run([[Launch(a)], [Gap(500.0), Launch(b)]])
            self.assertEqual((a.end, b.end), (sender_ends, 600.0))

    def test_a_missing_member_is_an_error_not_a_hang(self):
        coll = Collective(0, 0, "all_reduce", "all", 2, 100.0, [0.0, 0.0], 0, (0, 0))
        with self.assertRaisesRegex(RuntimeError, "lacks a member"):
            run([[Launch(part(0, coll, 0)), Sync(15)], []])


class ScheduleTest(unittest.TestCase):
    def test_every_microbatch_passes_each_chunk_forward_and_backward_once(self):
        for stages, chunks, batches in ((4, 1, 8), (4, 1, 2), (4, 2, 8), (8, 3, 16)):
            for stage in range(stages):
                order = schedule(stage, stages, chunks, batches)
                forward = [(b, c) for what, b, c in order if what == "F"]
                backward = [(b, c) for what, b, c in order if what == "B"]
                everything = {(b, c) for b in range(batches) for c in range(chunks)}
                self.assertEqual((len(forward), set(forward)), (batches * chunks, everything))
                self.assertEqual((len(backward), set(backward)), (batches * chunks, everything))
                for item in everything:
                    self.assertLess(order.index(("F", *item)), order.index(("B", *item)))


class JobTest(unittest.TestCase):
    def test_every_shape_runs_and_the_same_seed_gives_the_same_job(self):
        for topology in SHAPES:
            parameters = draw(3, topology, 8, 2, 0.01)
            first, again = Job(parameters, []).run(), Job(parameters, []).run()
            self.assertEqual(first.step_ns, again.step_ns)
            self.assertNotEqual(first.step_ns, Job(draw(4, topology, 8, 2, 0.01), []).run().step_ns)

    def test_a_fault_changes_only_its_targets(self):
        parameters = draw(5, "hybrid", 8, 3, 0.03)
        healthy, sick = Job(parameters, []).run(), Job(parameters, [("slow_gpu", 0.3, 5, "whole")]).run()
        for rank in range(8):
            for a, b in zip(healthy.ops(rank), sick.ops(rank)):
                self.assertEqual(a.think, b.think)
                if a.kind == COMPUTE:
                    factor = 1.0 if rank != 5 else 1.075 if a.kernel_class.memory else 1.3
                    self.assertAlmostEqual(b.work, a.work * factor, places=3)
                elif a.coll is not None:
                    self.assertEqual(a.coll.time, b.coll.time)

    def test_faults_cost_time_and_episodes_only_during_them(self):
        for kind in KINDS:
            topology = next(t for t in ("dp", "pipeline", "hybrid", "experts") if possible(kind, t, 16))
            parameters = draw(11, topology, 16, 6, 0.002)
            parameters["sync"] = True
            lost = []
            for seed in range(3):
                job = Job({**parameters, "seed": seed}, [(kind, KINDS[kind].sizes[-1], 3, "whole")])
                lost.append(sum(job.run().step_ns) - sum(job.run(()).step_ns))
            self.assertGreater(max(lost), 0.0, kind)
        job = Job(draw(12, "dp", 8, 10, 0.01), [("slow_gpu", 0.3, 3, "episode")])
        sick, healthy = job.run(), job.run(())
        active = job.run().job.faults[0].active
        for k in range(1, 11):
            if not active[k] and not active[k - 1]:
                self.assertAlmostEqual(sick.step_ns[k - 1], healthy.step_ns[k - 1], delta=1e5)

    def test_wait_and_transfer_sum_to_each_collective(self):
        with tempfile.TemporaryDirectory() as folder:
            truth = generate(pathlib.Path(folder) / "job.timeline", 8, "experts", 8, 2, collectives=True, faults=[("slow_gpu", 0.3, 2, "whole")])
        waits = {}
        for rank in truth["collectives"]:
            for number, wait, transfer in rank:
                self.assertGreaterEqual(transfer, 0)
                waits.setdefault(number, []).append(wait)
        whole = [w for n, w in waits.items() if len(w) == truth["collective_sizes"][n] > 2]
        self.assertGreater(len(whole), 10)
        self.assertTrue(all(min(w) == 0 for w in whole))
        self.assertGreater(truth["lost_ns_per_step"], 0)

    def test_timelines_of_one_seed_are_identical(self):
        with tempfile.TemporaryDirectory() as folder:
            texts = []
            for name in "ab":
                path = pathlib.Path(folder) / name
                generate(path, 9, "dp", 8, 2, clock_ms=1.0, drift_ppm=50.0, loss=0.02)
                texts.append(path.read_bytes())
        self.assertEqual(*texts)
        self.assertTrue(texts[0].endswith(b"\nend\n"))


class TableTest(unittest.TestCase):
    def test_f1_counts_wrong_and_missing_findings(self):
        right = {"named": True, "right_place": True}
        wrong = {"named": True, "right_place": False}
        silent = {"named": False, "right_place": False}
        self.assertEqual(table.rank_f1([right] * 4), 1.0)
        self.assertAlmostEqual(table.rank_f1([right, right, silent]), 0.8)
        self.assertAlmostEqual(table.rank_f1([right, right, wrong]), 2 / 3)

    def test_quantiles_are_values_that_occurred(self):
        self.assertEqual(table.quantile([5, 1, 3], 0.5), 3)
        self.assertEqual(table.quantile(range(1, 101), 0.9), 90)
        self.assertEqual(table.quantile(range(1, 101), 0.99), 99)
        self.assertEqual(table.quantile([7], 0.99), 7)


if __name__ == "__main__":
    unittest.main()
