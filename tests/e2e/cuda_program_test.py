"""Captures a program for CUDA and NCCL on the simulated stack under mpiexec, as on a GPU. The report must
name the slow rank, and the plugin's events must identify the kernels of the collectives."""
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
# The same program with hand-written host code, and compiled by nvcc if that exists.
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
        # A collective that was enqueued before the window and ran in it has a kernel, but no event.
        self.assertLessEqual(matching["by"]["order"], 1, matching)
        self.assertGreater(matching["matched_fraction"], 0.95, matching)
        operations = {c["op"]: c["group_size"] for c in report["collectives"]}
        self.assertEqual(list(operations.values()), [RANKS], operations)

    def assert_named(self, report, rank):
        self.assertTrue(report["stragglers"], json.dumps(report["slowdown"]))
        self.assertEqual(report["stragglers"][0]["ranks"], [rank], report["stragglers"][0])

    def test_names_the_slowed_rank(self):
        for program in PROGRAMS:
            with self.subTest(program=program.name):
                report = self.capture(program, SIMGPU_SLOW_RANK="2:1.3")
                self.assert_complete(report)
                self.assert_named(report, 2)

    def test_names_a_rank_with_extra_work(self):
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
        """Returns the number of rows by kind, per rank."""
        return [rows for _, rows in sorted(count_capture(self.folder).items())]

    def traces(self):
        traces = [json.loads(gzip.decompress(p.read_bytes())) for p in self.folder.rglob("*.pt.trace.json.gz")]
        return sorted(traces, key=lambda trace: trace["distributedInfo"]["rank"])

    def test_capture_has_older_devices_contexts_and_streams(self):
        report = self.capture(PROGRAMS[-1])
        self.assert_complete(report)
        self.assertEqual({rank["device_name"] for rank in report["ranks"]}, {"Simulated GPU"})
        self.assertEqual(len({rank["device_uuid"] for rank in report["ranks"]}), RANKS, report["ranks"])
        self.assertTrue(all(rank["sm_efficiency"] is not None for rank in report["ranks"]))
        for rank, rows in enumerate(self.rows()):
            with self.subTest(rank=rank):
                # A rank has eight devices. It has the contexts of device 0 (used at the start) and of its own
                # device, three streams of the loop, and NCCL's stream.
                self.assertEqual(rows["device"], 8)
                self.assertGreaterEqual(rows["context"], 1)
                self.assertGreaterEqual(rows["stream"], 4)
                self.assertNotIn("memory_op", rows, "the capture did not ask for it")
        traces = self.traces()
        self.assertEqual(len(traces), RANKS)
        for trace in traces:
            properties, = trace["deviceProperties"]
            self.assertEqual((properties["name"], properties["numSms"], properties["computeMajor"]), ("Simulated GPU", 132, 9))
            self.assertEqual(properties["totalGlobalMem"], 80 << 30)

    def test_records_memory_operations_on_request(self):
        report = self.capture(PROGRAMS[-1], "--allocate", trace_args=(
            "--activities", "kernel,memcpy,memset,runtime,driver,sync,nvtx,nccl,memory"))
        self.assert_complete(report)
        for rank, (rows, trace) in enumerate(zip(self.rows(), self.traces())):
            with self.subTest(rank=rank):
                memory = [e for e in trace["traceEvents"] if e.get("name") == "[memory]"]
                self.assertEqual(len(memory), rows["memory_op"])
                # Each step allocates and frees two blocks.
                self.assertGreaterEqual(len(memory), 4 * (report["capture"]["steps"] - 1))
                taken = [e["args"] for e in memory if e["args"]["Bytes"] > 0]
                given = [e["args"] for e in memory if e["args"]["Bytes"] < 0]
                self.assertLessEqual(abs(len(taken) - len(given)), 2)
                self.assertEqual({args["Bytes"] for args in taken}, {1 << 20})
                calls = {e["args"]["correlation"]: e for e in trace["traceEvents"] if e.get("cat") == "cuda_runtime"}
                for event in memory:
                    call = calls.get(event["args"]["correlation"])
                    if call is None:  # the call is outside the window
                        continue
                    self.assertEqual(event["tid"], call["tid"])
                    self.assertRegex(call["name"], "^cuda(Malloc|Free)")

    def test_a_healthy_job_has_no_straggler(self):
        report = self.capture(PROGRAMS[0])
        self.assert_complete(report)
        # The hosts are real and may be slow, because four ranks share this machine with other work. The
        # devices are exact.
        self.assertEqual([s for s in report["stragglers"] if s["verdict"] != "undecided" and s["cause"] in DEVICE_CAUSES], [])

    def test_names_the_slowed_rank_with_work_in_graphs(self):
        report = self.capture(PROGRAMS[-1], "--graph", SIMGPU_SLOW_RANK="3:1.3")
        self.assert_complete(report)
        self.assert_named(report, 3)

    def test_the_simulated_stack_needs_its_folder(self):
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
