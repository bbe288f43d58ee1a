"""Captures unmodified PyTorch jobs. Their ranks have no client of Lockstep and only ask Kineto's daemon, and
`lockstep trace` must reach them. Simulated libkineto processes (tests/support/fake_kineto_client.py) write
traces of a generated job with a known straggler."""
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "tests" / "scenario"))
from generate import generate  # noqa: E402
from live_job import report_of  # noqa: E402
import side_by_side  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
CLIENT = ROOT / "tests" / "support" / "fake_kineto_client.py"
RANKS = 8
SLOW = 5
JOB = "torch-job"


class KinetoJob:
    """A daemon and ranks that ask it. Sockets are in a folder with a short path, all other files in `work`."""

    def __init__(self, work, kineto="own", more=()):
        self.work = pathlib.Path(work)
        self.sockets = pathlib.Path(tempfile.mkdtemp(prefix="lk-"))
        self.socket = self.sockets / "client.sock"
        self.traces = self.work / "ondemand"
        self.traces.mkdir()
        self.processes = {}
        self.logs = []
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("LOCKSTEP_", "KINETO_", "OMPI_", "PMIX_", "SLURM_"))}
        self.env.update({"LOCKSTEP_SOCKET": str(self.socket), "XDG_STATE_HOME": str(self.work / "state")})
        self.daemon_log = open(self.work / "lockstepd.log", "w")
        self.daemon = subprocess.Popen([str(BIN / "lockstepd"), "--socket", str(self.socket), "--kineto", kineto, *more],
                                       env=self.env, stdin=subprocess.DEVNULL, stdout=self.daemon_log, stderr=subprocess.STDOUT)
        wait_until((self.sockets / "kineto" / "dynolog").exists, "Kineto's socket", self.log_text)

    def start(self, rank, *args, env=None, prefix=(), world=RANKS):
        gpu = self.work / f"gpu{rank}"
        gpu.mkdir(exist_ok=True)
        inherited = {k: v for k, v in self.env.items() if k != "LOCKSTEP_SOCKET"}
        environment = {**inherited, "KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": str(self.sockets / "kineto"),
                       "KINETO_ONDEMAND_TRACE_DIR": str(self.traces), "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world),
                       "TORCHELASTIC_RUN_ID": JOB, "FAKE_GPU_FOLDER": str(gpu), **(env or {})}
        environment = {k: v for k, v in environment.items() if v is not None}
        log = open(self.work / f"rank{rank}.log", "a")
        self.logs.append(log)
        self.processes[rank] = subprocess.Popen([*prefix, sys.executable, str(CLIENT), *map(str, args)], env=environment,
                                                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def cli(self, *args, timeout=120):
        return subprocess.run([str(BIN / "lockstep"), *map(str, args)], env=self.env, text=True, capture_output=True, timeout=timeout)

    def status(self):
        done = self.cli("status", "--format", "json")
        return json.loads(done.stdout)["daemons"][0]

    def wait_for_ranks(self, count):
        wait_until(lambda: len(self.status()["ranks"]) >= count, f"{count} ranks",
                   lambda: json.dumps(self.status(), indent=1) + self.log_text())
        # A rank that asked twice shows its polling interval, so that a capture of it begins sooner.
        time.sleep(0.7)
        return self.status()

    def log_text(self):
        return "".join(f"--- {p.name}\n{p.read_text()[-2500:]}" for p in sorted(self.work.glob("*.log")))

    def close(self):
        for process in [*self.processes.values(), self.daemon]:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in [*self.processes.values(), self.daemon]:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)
        for log in [*self.logs, self.daemon_log]:
            log.close()
        shutil.rmtree(self.sockets, ignore_errors=True)


class KinetoTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-kineto-")
        cls.addClassCleanup(folder.cleanup)
        cls.base = pathlib.Path(folder.name)
        timeline = cls.base / "job.timeline"
        generate(timeline, 11, ranks=RANKS, steps=12, faults=[("slow_gpu", 0.25, SLOW, "whole")])
        done = subprocess.run([str(BIN / "lockstep"), "export", str(timeline), "--format", "kineto", "-o", str(cls.base / "traces")],
                              text=True, capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        cls.trace = {}
        cls.origin = None
        for path in sorted((cls.base / "traces").glob("*.json.gz")):
            text = gzip.decompress(path.read_bytes()).decode()
            document = json.loads(text)
            rank = document["distributedInfo"]["rank"]
            base = document["baseTimeNanoseconds"]
            first = min(float(e["ts"]) for e in document["traceEvents"] if e.get("ph") == "X")
            start = base + int(first * 1000)
            cls.origin = start if cls.origin is None else min(cls.origin, start)
            cls.trace[rank] = path
        assert sorted(cls.trace) == list(range(RANKS)), cls.trace

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(dir=self.base))

    def job(self, **kwargs):
        job = KinetoJob(self.work, **kwargs)
        self.addCleanup(job.close)
        return job

    def start(self, job, rank, *args, **kwargs):
        job.start(rank, "--trace", self.trace[rank], "--origin", self.origin, *args, **kwargs)

    def test_captures_an_unmodified_job_and_names_the_straggler(self):
        job = self.job()
        ways = {0: ["--gzip"], 1: ["--old"], 2: ["--poll", 1, "--late-answers", 1], 3: ["--no-rank"], 4: ["--refuse-path"], 6: ["--busy-first", 3]}
        for rank in range(RANKS):
            self.start(job, rank, *ways.get(rank, []), env={"KINETO_ONDEMAND_TRACE_DIR": None} if rank in (4, 7) else None)
        # torchrun's own process also imports PyTorch and asks.
        job.start("launcher", "--no-gpu", env={"RANK": None, "LOCAL_RANK": None, "WORLD_SIZE": None})
        status = job.wait_for_ranks(RANKS)
        self.assertEqual([r["rank"] for r in status["ranks"]], list(range(RANKS)), "the launcher is no rank")
        self.assertEqual({(r["via"], r["job"], r["rank_source"], r["world_size"]) for r in status["ranks"]},
                         {("kineto", JOB, "torchrun", RANKS)})
        self.assertIn(str(job.sockets / "kineto"), status["kineto"])
        began = time.time()
        done = job.cli("trace", "--duration", "2s", "-o", self.work / "capture", "--exit-code")
        print(f"\n{time.time() - began:.1f} s for a capture of 2 s\n{done.stderr}", file=sys.stderr)
        self.assertEqual(done.returncode, 3, done.stderr + job.log_text())
        self.assertIn("all ranks start together in", done.stderr)
        report = report_of(self.work / "capture")
        self.assertEqual(report["stragglers"][0]["ranks"], [SLOW], report["stragglers"])
        self.assertIn(f"rank {SLOW}", done.stdout.splitlines()[0])
        self.assertEqual(report["capture"]["missing_ranks"], [])
        self.assertEqual(report["capture"]["losses"], [])
        self.assertEqual({r["rank"]: r["pid"] for r in report["ranks"]}, {n: job.processes[n].pid for n in range(RANKS)})
        self.assert_same_as_the_traces(report)
        # All files are removed, except one whose path Lockstep did not choose.
        self.assertEqual(list(job.traces.iterdir()), [])
        fallback = pathlib.Path(f"/tmp/libkineto_activities_{job.processes[4].pid}.json")
        self.assertTrue(fallback.exists())
        fallback.unlink()
        self.assertEqual(list(pathlib.Path("/tmp").glob(f"lockstep_*_{job.processes[7].pid}.json*")), [])
        # `lockstep analyze` can read the capture's folder.
        again = job.cli("analyze", self.work / "capture", "--format", "json")
        self.assertEqual(json.loads(again.stdout)["stragglers"][0]["ranks"], [SLOW])
        self.assertEqual(sorted(p.name for p in (self.work / "capture" / "records").iterdir()),
                         ["manifest.json", *(f"r{n:05d}.p{n:05d}.kineto.json.gz" for n in range(RANKS))])

    def assert_same_as_the_traces(self, report):
        """Checks that the stored trace is the profiler's: its figures equal those of an import of the same
        traces."""
        done = subprocess.run([str(BIN / "lockstep"), "analyze", str(self.base / "traces"), "--format", "json"], text=True, capture_output=True)
        imported = {r["rank"]: r for r in json.loads(done.stdout)["ranks"]}
        for row in report["ranks"]:
            for key in ("compute_ns", "communication_ns", "memory_ns", "overlap_ns", "span_ns", "wait_ns"):
                self.assertEqual(row[key], imported[row["rank"]][key], (row["rank"], key))

    def test_names_ranks_that_cannot_trace_and_captures_the_others(self):
        job = self.job()
        ways = {0: ["--busy-first", 1000], 1: ["--die", "taken"], 2: ["--die", "writing"], 3: ["--truncate"]}
        for rank in range(RANKS):
            self.start(job, rank, *ways.get(rank, []))
        job.wait_for_ranks(RANKS)
        done = job.cli("trace", "--duration", "1s", "--arm-timeout", "2s", "-o", self.work / "capture")
        print(done.stderr, file=sys.stderr)
        self.assertEqual(done.returncode, 7, done.stderr + job.log_text())
        self.assertRegex(done.stderr, r"rank 0 \S+: .*profiler is busy")
        self.assertRegex(done.stderr, r"rank 1 gone: the process ended")
        report = report_of(self.work / "capture")
        self.assertEqual(report["capture"]["missing_ranks"], [0, 1, 2, 3])
        self.assertEqual([r["rank"] for r in report["ranks"]], [4, 5, 6, 7])
        self.assertEqual(list(job.traces.iterdir()), [], "what an ended process has left half-written is removed")
        # A rank whose profiler was busy can be captured later. No rank stays in the capture that ended.
        self.assertEqual(job.cli("trace", "--duration", "1s", "--ranks", "4-7", "-o", self.work / "next").returncode, 0)

    def test_uses_the_requested_source_or_fails_with_a_message(self):
        job = self.job()
        self.start(job, 0, world=1)
        job.wait_for_ranks(1)
        done = job.cli("trace", "--via", "cupti", "--duration", "1s", "-o", self.work / "capture")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("Lockstep's client is not loaded", done.stderr)
        self.assertFalse((self.work / "capture").exists())
        done = job.cli("trace", "--via", "cupti", "--activities", "kernel,python", "-o", self.work / "capture")
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_a_stopped_capture_leaves_no_files(self):
        job = self.job()
        for rank in range(2):
            self.start(job, rank, world=2)
        job.wait_for_ranks(2)
        trace = subprocess.Popen([str(BIN / "lockstep"), "trace", "--duration", "1s", "-o", str(self.work / "capture")], env=job.env,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: all("taken" in (self.work / f"rank{r}.log").read_text() for r in range(2)), "both requests", job.log_text)
        trace.kill()
        trace.communicate()
        # A running profiler cannot be stopped. Its file still appears and is then removed.
        wait_until(lambda: all("wrote" in (self.work / f"rank{r}.log").read_text() for r in range(2)), "both files", job.log_text)
        wait_until(lambda: not list(job.traces.iterdir()), "the files are removed", job.log_text)
        done = job.cli("trace", "--duration", "1s", "-o", self.work / "next")
        self.assertEqual(done.returncode, 0, done.stderr + job.log_text())

    def test_ranks_of_both_sources_start_together(self):
        """Captures simulated ranks with the client and ranks that only ask, in one job of one daemon."""
        job = self.job()
        mpi = {**job.env, "LOCKSTEP_JOB": JOB, "LOCKSTEP_SOCKET": str(job.socket), "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        log = open(self.work / "sim.log", "w")
        job.logs.append(log)
        job.processes["sim"] = subprocess.Popen(
            ["mpiexec", "--oversubscribe", "--bind-to", "none", "-n", "2", str(BIN / "lockstep"), "run", "--", str(BIN / "lockstep-sim-rank"),
             "--forever", "--time-scale", "4", "--microbatches", "2", "--dp", "2", "--tp", "1", "--pp", "1"], env=mpi, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        for rank in (2, 3):
            self.start(job, rank, env={"LOCKSTEP_JOB": JOB, "TORCHELASTIC_RUN_ID": None}, world=4)
        status = job.wait_for_ranks(4)
        self.assertEqual({r["rank"]: r["via"] for r in status["ranks"]}, {0: "cupti", 1: "cupti", 2: "kineto", 3: "kineto"})
        done = job.cli("trace", "--duration", "1s", "-o", self.work / "capture")
        self.assertEqual(done.returncode, 0, done.stderr + job.log_text())
        manifest = json.loads((self.work / "capture" / "records" / "manifest.json").read_text())
        self.assertEqual([p["via"] for p in manifest["processes"]], ["cupti", "cupti", "kineto", "kineto"])
        self.assertEqual(len({(p["t0_host_ns"], p["t1_host_ns"]) for p in manifest["processes"]}), 1, "one window for all")
        report = report_of(self.work / "capture")
        self.assertEqual([r["rank"] for r in report["ranks"]], [0, 1, 2, 3])
        starts = []
        for rank in (2, 3):
            text = gzip.decompress((self.work / "capture" / "records" / f"r{rank:05d}.p{rank:05d}.kineto.json.gz").read_bytes()).decode()
            starts.append(json.loads(text)["baseTimeNanoseconds"])
        self.assertEqual(len(set(starts)), 1, "the profilers were given one start")
        # The clients agree on steps. The profilers record a window around these steps.
        done = job.cli("trace", "--steps", "3", "-o", self.work / "steps")
        print(done.stderr, file=sys.stderr)
        self.assertEqual(done.returncode, 0, done.stderr + job.log_text())
        manifest = json.loads((self.work / "steps" / "records" / "manifest.json").read_text())
        self.assertEqual(manifest["steps"], 3)
        windows = [(p["t0_host_ns"], p["t1_host_ns"]) for p in manifest["processes"]]
        self.assertEqual(windows[2], windows[3])
        for client in windows[:2]:
            self.assertLess(windows[2][0], client[0])
            self.assertGreater(windows[2][1], client[1])

    def test_steps_are_the_profilers_iterations(self):
        job = self.job()
        step, epoch = 0.05, time.time()
        for rank in range(4):
            self.start(job, rank, "--step-seconds", step, "--epoch", epoch, world=4)
        job.wait_for_ranks(4)
        # Ranks that ask before and after a multiple of 100 steps would record different steps. This sleep
        # avoids such a multiple for the next 4 s.
        time.sleep(5 - (time.time() - epoch) % 5 + 0.3)
        done = job.cli("trace", "--steps", "5", "-o", self.work / "capture")
        print(done.stderr, file=sys.stderr)
        self.assertEqual(done.returncode, 0, done.stderr + job.log_text())
        recorded = {rank: re.findall(r"recorded iterations (\d+) to (\d+)", (self.work / f"rank{rank}.log").read_text()) for rank in range(4)}
        [(first, last)] = recorded[0]
        self.assertEqual((int(first) % 100, int(last) - int(first)), (0, 5))
        self.assertEqual([recorded[r] for r in range(4)], [recorded[0]] * 4, "once each, and the same")
        self.assertEqual([r["rank"] for r in report_of(self.work / "capture")["ranks"]], [0, 1, 2, 3])
        self.assertEqual(list(job.traces.iterdir()), [])
        at = int((time.time() - epoch) / step) + 80
        done = job.cli("trace", "--start-on-step", at, "--steps", "3", "-o", self.work / "from")
        self.assertEqual(done.returncode, 0, done.stderr + job.log_text())
        for rank in range(4):
            self.assertIn(f"recorded iterations {at} to {at + 3}\n", (self.work / f"rank{rank}.log").read_text())
        done = job.cli("trace", "--start-on-range", "validation", "-o", self.work / "range")
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("failed: PyTorch's profiler supports only times and numbers of steps", done.stderr)

    def test_reports_a_job_without_iterations(self):
        job = self.job()
        for rank in range(2):
            self.start(job, rank, world=2)
        job.wait_for_ranks(2)
        began = time.monotonic()
        done = job.cli("trace", "--steps", "3", "--trigger-timeout", "2s", "-o", self.work / "capture")
        print(done.stderr, file=sys.stderr)
        self.assertLess(time.monotonic() - began, 15)
        self.assertEqual(done.returncode, 6, done.stderr + job.log_text())
        self.assertRegex(done.stderr, "ranks 0, 1 failed: its profiler did not reach a multiple of 100 iterations in time: .*--duration")
        self.assertFalse((self.work / "capture").exists())
        done = job.cli("trace", "--duration", "1s", "-o", self.work / "next")
        self.assertEqual(done.returncode, 0, done.stderr + job.log_text())

    def test_ranks_with_a_busy_cupti_use_pytorchs_profiler(self):
        """Under `lockstep run` all ranks have the client. Some also ask for on-demand traces, and some find
        CUPTI held by another tool."""
        job = self.job()
        run = [str(BIN / "lockstep"), "run", "--mode", "kineto", "--"]
        stack = {"LD_LIBRARY_PATH": str(BIN.parent / "lib" / "sim_stack"), "LOCKSTEP_SOCKET": str(job.socket), "LOCKSTEP_JOB": JOB,
                 "TORCHELASTIC_RUN_ID": None, "KINETO_USE_DAEMON": None, "KINETO_IPC_SOCKET_DIR": None, "SIMGPU_CUPTI_FAULTS": "exclusive"}
        self.start(job, 0, "--cupti-clock", prefix=run, env=stack, world=4)
        self.start(job, 1, "--cupti-subscriber", "NVIDIA Nsight Systems", prefix=run, env=stack, world=4)
        self.start(job, 2, "--cuda", prefix=run, env=stack, world=4)
        # This rank has the client only. It does not ask for on-demand traces.
        self.start(job, 3, "--cupti-subscriber", "NVIDIA Nsight Systems", "--no-kineto", prefix=[*run[:2], "--mode", "cupti", "--"], env=stack,
                   world=4)
        wait_until(lambda: [(r["via"], r["kineto"]) for r in job.status()["ranks"]] == [("cupti", True)] * 3 + [("cupti", False)], "four ranks",
                   lambda: json.dumps(job.status()["ranks"], indent=1) + job.log_text())
        refused = job.cli("trace", "--via", "cupti", "--ranks", "0", "--duration", "500ms", "-o", self.work / "cupti")
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertRegex(refused.stderr, "rank 0 failed: .*replaced the clock; --via auto captures it by PyTorch's own profiler")
        self.assertFalse((self.work / "cupti").exists())
        done = job.cli("trace", "--duration", "1s", "-o", self.work / "capture")
        print(done.stderr, file=sys.stderr)
        self.assertEqual(done.returncode, 7, done.stderr + job.log_text())
        self.assertRegex(done.stderr, r"rank 0 \(.*\): captured by PyTorch's profiler: CUPTI's time stamps are neither from the host's clock")
        self.assertRegex(done.stderr, r"rank 1 \(.*\): captured by PyTorch's profiler: .*NVIDIA Nsight Systems")
        self.assertNotRegex(done.stderr, r"rank [23] \(.*\): goes")
        self.assertRegex(done.stderr, r"rank 3 failed: .*NVIDIA Nsight Systems; end that tool, or start .*KINETO_USE_DAEMON=1")
        self.assertIn("all ranks start together in", done.stderr)
        manifest = json.loads((self.work / "capture" / "records" / "manifest.json").read_text())
        self.assertEqual([p["via"] for p in manifest["processes"]], ["kineto", "kineto", "cupti", "cupti"])
        self.assertEqual(len({(p["t0_host_ns"], p["t1_host_ns"]) for p in manifest["processes"][:3]}), 1, "one window for all")
        self.assertEqual([p["state"] for p in manifest["processes"]], ["done", "done", "done", "failed"])
        self.assertIn("rank 1 was captured by PyTorch's profiler, since its client found CUPTI held by NVIDIA Nsight Systems", manifest["notes"])
        # A process is captured in one way. A rank that switched has a trace and no records. A rank that did
        # not switch was never asked for a trace.
        names = sorted(p.name for p in (self.work / "capture" / "records").iterdir())
        self.assertEqual([n for n in names if n.startswith(("r00000", "r00001"))],
                         ["r00000.p00000.kineto.json.gz", "r00001.p00001.kineto.json.gz"])
        self.assertNotIn("taken", (self.work / "rank2.log").read_text())
        holders = {r["rank"]: r["cupti_holder"] for r in job.status()["ranks"]}
        self.assertEqual(holders, {0: "a profiler that replaced its clock", 1: "NVIDIA Nsight Systems", 2: None, 3: "NVIDIA Nsight Systems"})
        self.assertRegex(job.cli("status").stdout, r"rank 1 .*, CUPTI held by NVIDIA Nsight Systems: by PyTorch's profiler\n")

    def test_dyno_reaches_processes_of_its_user(self):
        """Sends dynolog's remote call, as its command line and unitrace.py do."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        job = self.job(more=["--dyno-port", str(port)])
        for rank in range(4):
            self.start(job, rank, world=4, env={"SLURM_JOB_ID": "77"})
        job.wait_for_ranks(4)
        target = job.traces / "by_hand.json"
        config = f"ACTIVITIES_LOG_FILE={target}\nPROFILE_START_TIME={int((time.time() + 8) * 1000)}\nACTIVITIES_DURATION_MSECS=500\nREQUEST_TRACE_ID=x\n"

        def call(host="127.0.0.1", **fields):
            text = json.dumps(fields).encode()
            with socket.create_connection((host, port), timeout=10) as connection:
                connection.sendall(struct.pack("<i", len(text)) + text)
                data = b""
                while part := connection.recv(4096):
                    data += part
            return json.loads(data[4:])

        self.assertIn("lockstepd", call(fn="getVersion")["version"])
        unmatched = call(fn="setKinetOnDemandRequest", config=config, job_id=78, pids=[0], process_limit=1000)
        self.assertEqual(unmatched["processesMatched"], [])
        # The launcher's pid selects its child processes.
        done = call(fn="setKinetOnDemandRequest", config=config, job_id=77, pids=[os.getpid()], process_limit=1000)
        self.assertEqual(sorted(done["activityProfilersTriggered"]), sorted(p.pid for p in job.processes.values()), done)
        wait_until(lambda: len(list(job.traces.glob("by_hand_*.json"))) == 4, "four files", job.log_text)
        if os.geteuid() == 0 and shutil.which("setpriv"):
            other = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", "python3", "-c",
                                    "import socket,struct,json,sys\nt=json.dumps({'fn':'setKinetOnDemandRequest','config':'A=1','job_id':77,"
                                    "'pids':[0]}).encode()\ns=socket.create_connection(('127.0.0.1',int(sys.argv[1])))\n"
                                    "s.sendall(struct.pack('<i',len(t))+t)\nd=b''\nwhile True:\n p=s.recv(4096)\n if not p: break\n d+=p\n"
                                    "print(json.loads(d[4:])['processesMatched'])", str(port)], capture_output=True, text=True, timeout=30)
            self.assertEqual(other.stdout.strip(), "[]", other.stderr)

    def test_captures_a_rank_in_a_container(self):
        """Captures a rank with its own pid namespace and a folder that only it sees."""
        private = self.work / "private"
        private.mkdir()
        script = f"mount -t tmpfs none {private} && exec \"$@\""
        for how in (["unshare", "-pfm", "--kill-child=TERM"], ["unshare", "-Urpfm", "--kill-child=TERM"]):
            if subprocess.run([*how, "sh", "-c", script, "sh", "true"], capture_output=True).returncode == 0:
                break
        else:
            print("this machine allows no pid and mount namespaces: nothing was tested", file=sys.stderr)
            return
        job = self.job()
        self.start(job, 0, prefix=[*how, "sh", "-c", script, "sh"], env={"KINETO_ONDEMAND_TRACE_DIR": str(private)}, world=1)
        status = job.wait_for_ranks(1)
        self.assertNotIn(f"pid {status['ranks'][0]['pid']} ", (self.work / "rank0.log").read_text(), "it has another pid for itself")
        done = job.cli("trace", "--duration", "1s", "-o", self.work / "capture")
        self.assertEqual(done.returncode, 0, done.stderr + job.log_text())
        self.assertEqual(len(report_of(self.work / "capture")["ranks"]), 1)
        self.assertEqual(list(private.iterdir()), [], "the file was never outside")


if __name__ == "__main__":
    # Four tests run at the same time, because most of a test is waiting of the protocol.
    side_by_side.main(KinetoTest, sys.argv[1:], workers=4)
