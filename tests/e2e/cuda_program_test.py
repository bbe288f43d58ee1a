"""A program written for CUDA and NCCL, on the simulated stack under mpiexec: captured as on a GPU, the slow rank named, the
collectives joined to their kernels by the plugin."""
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from count_records import count_capture  # noqa: E402
from live_job import LiveJob, report_of  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
STACK = BIN.parent / "lib" / "sim_stack"
# The same source: by hand what nvcc makes, and what nvcc makes.
PROGRAMS = [p for p in (BIN / "lockstep_train_loop", BIN / "lockstep_train_loop_nvcc") if p.exists()]
RANKS = 4
DEVICE_CAUSES = {"gpu_clock", "gpu_memory", "contention", "slow_link", "congestion", "copy"}


class CudaProgram(unittest.TestCase):
    def job(self, program, *args, **env):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-e2e-")
        self.addCleanup(folder.cleanup)
        work = pathlib.Path(folder.name)
        env = {"LD_LIBRARY_PATH": str(STACK), "SIMGPU_KERNELS": "*matmul*=1500us~1%,*scale*=100us", **env}
        command = [str(program), "--id-file", str(work / "id"), *map(str, args)]
        return work, LiveJob(BIN, work, ranks=RANKS, env=env, rank_command=command, run_args=("--preload",))

    def capture(self, program, *args, trace_args=(), **env):
        work, job = self.job(program, "--steps", "0", *args, **env)
        with job:
            job.wait_for_ranks()
            done = job.trace(work / "capture", "--duration", "2s", *trace_args)
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout + job.rank_output())
        self.assertEqual(job.daemons(), [], "the daemon is still there")
        self.folder = work / "capture"
        return report_of(self.folder)

    def assert_complete(self, report):
        self.assertEqual(len(report["ranks"]), RANKS)
        self.assertEqual(report["capture"]["losses"], [])
        self.assertGreaterEqual(report["capture"]["steps"], 20)
        matching = report["capture"]["matching"]
        self.assertGreaterEqual(matching["by"]["nccl_seq"], matching["instances"] - 1, matching)
        # One may have been enqueued before the window and have run in it: its event is not there, its kernel is.
        self.assertLessEqual(matching["by"]["order"], 1, matching)
        self.assertGreater(matching["matched_fraction"], 0.95, matching)
        operations = {c["op"]: c["group_size"] for c in report["collectives"]}
        self.assertEqual(list(operations.values()), [RANKS], operations)

    def assert_named(self, report, rank):
        self.assertTrue(report["stragglers"], json.dumps(report["slowdown"]))
        self.assertEqual(report["stragglers"][0]["ranks"], [rank], report["stragglers"][0])

    def test_the_slowed_rank_is_named(self):
        for program in PROGRAMS:
            with self.subTest(program=program.name):
                report = self.capture(program, SIMGPU_SLOW_RANK="2:1.3")
                self.assert_complete(report)
                self.assert_named(report, 2)

    def test_a_rank_with_more_work_is_named_for_that(self):
        report = self.capture(PROGRAMS[-1], "--slow-rank", 1, "--slow-factor", 1.25)
        self.assert_complete(report)
        self.assert_named(report, 1)
        self.assertEqual(report["stragglers"][0]["cause"], "unknown")
        self.assertIn("kernels more per step than its peers", " ".join(report["stragglers"][0]["evidence"]))
        compute = [rank["compute_ns"] for rank in report["ranks"]]
        caused = [rank["caused_wait_ns"] for rank in report["ranks"]]
        for other in (0, 2, 3):
            self.assertAlmostEqual(compute[1] / compute[other], 1.25, delta=0.03)
            self.assertGreater(caused[1], 5 * caused[other])

    def rows(self):
        """Rows by kind, per rank."""
        return [rows for _, rows in sorted(count_capture(self.folder).items())]

    def traces(self):
        traces = [json.loads(gzip.decompress(p.read_bytes())) for p in self.folder.rglob("*.pt.trace.json.gz")]
        return sorted(traces, key=lambda trace: trace["distributedInfo"]["rank"])

    def test_devices_contexts_and_streams_older_than_the_capture_are_in_it(self):
        report = self.capture(PROGRAMS[-1])
        self.assert_complete(report)
        self.assertEqual({rank["device_name"] for rank in report["ranks"]}, {"Simulated GPU"})
        self.assertEqual(len({rank["device_uuid"] for rank in report["ranks"]}), RANKS, report["ranks"])
        self.assertTrue(all(rank["sm_efficiency"] is not None for rank in report["ranks"]))
        for rank, rows in enumerate(self.rows()):
            with self.subTest(rank=rank):
                # Eight devices; the contexts of device 0, that of the start, and of the rank's own; the loop's three streams and NCCL's.
                self.assertEqual(rows["device"], 8)
                self.assertGreaterEqual(rows["context"], 1)
                self.assertGreaterEqual(rows["stream"], 4)
                self.assertNotIn("memory_op", rows, "nobody asked for it")
        traces = self.traces()
        self.assertEqual(len(traces), RANKS)
        for trace in traces:
            properties, = trace["deviceProperties"]
            self.assertEqual((properties["name"], properties["numSms"], properties["computeMajor"]), ("Simulated GPU", 132, 9))
            self.assertEqual(properties["totalGlobalMem"], 80 << 30)

    def test_memory_operations_are_there_when_asked_for(self):
        report = self.capture(PROGRAMS[-1], "--allocate", trace_args=(
            "--activities", "kernel,memcpy,memset,runtime,driver,sync,nvtx,nccl,memory"))
        self.assert_complete(report)
        for rank, (rows, trace) in enumerate(zip(self.rows(), self.traces())):
            with self.subTest(rank=rank):
                memory = [e for e in trace["traceEvents"] if e.get("name") == "[memory]"]
                self.assertEqual(len(memory), rows["memory_op"])
                # Two blocks a step, each taken and given back.
                self.assertGreaterEqual(len(memory), 4 * (report["capture"]["steps"] - 1))
                taken = [e["args"] for e in memory if e["args"]["Bytes"] > 0]
                given = [e["args"] for e in memory if e["args"]["Bytes"] < 0]
                self.assertLessEqual(abs(len(taken) - len(given)), 2)
                self.assertEqual({args["Bytes"] for args in taken}, {1 << 20})
                calls = {e["args"]["correlation"]: e for e in trace["traceEvents"] if e.get("cat") == "cuda_runtime"}
                for event in memory:
                    call = calls.get(event["args"]["correlation"])
                    if call is None:  # at the window's edge
                        continue
                    self.assertEqual(event["tid"], call["tid"])
                    self.assertRegex(call["name"], "^cuda(Malloc|Free)")

    def test_a_healthy_job_is_not_blamed(self):
        report = self.capture(PROGRAMS[0])
        self.assert_complete(report)
        # The hosts are real and may be slow: four ranks share this machine with whatever else runs. The devices are exact.
        self.assertEqual([s for s in report["stragglers"] if s["verdict"] != "undecided" and s["cause"] in DEVICE_CAUSES], [])

    def test_the_slowed_rank_is_named_when_its_work_is_in_graphs(self):
        report = self.capture(PROGRAMS[-1], "--graph", SIMGPU_SLOW_RANK="3:1.3")
        self.assert_complete(report)
        self.assert_named(report, 3)

    def test_without_the_stand_ins_folder_the_program_does_not_find_them(self):
        work, job = self.job(PROGRAMS[0], "--steps", "1", LD_LIBRARY_PATH="")
        done = subprocess.run([PROGRAMS[0], "--id-file", str(work / "id"), "--steps", "1"], env=job.env, text=True,
                              capture_output=True, timeout=60)
        job._socket_dir.cleanup()
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("every sum is right", done.stdout)


if __name__ == "__main__":
    if len(PROGRAMS) == 1:
        print("no nvcc when this was built: only the program with its host code written by hand is run", flush=True)
    unittest.main(verbosity=2)
