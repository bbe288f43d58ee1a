"""Tests two nodes on one machine. Each daemon has its own network namespace and reaches the aggregator over a
veth. Node b has another CLOCK_REALTIME. A capture mid-job must name the right rank, and its clock error
for b must be within the stated bound.

The ranks run under one mpiexec in the outer namespace, because PMIx listens on the launcher's loopback.
They reach their node's daemon by socket path. The test runs in its own namespaces, as root or as a user
under `unshare -Urnm`."""
import json
import os
import pathlib
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from late_ranks import repeat_when_late  # noqa: E402
from live_job import LiveJob, report_of  # noqa: E402
from verdict import CAUSES  # noqa: E402
from waiting import wait_until  # noqa: E402

INSIDE = "LOCKSTEP_TEST_IN_NAMESPACE"
BIN = pathlib.Path(sys.argv[1]).resolve()
PRELOAD = pathlib.Path(sys.argv[2]).resolve()
AHEAD_NS, DRIFT_PPM = 10_000_000, 50


def enter_namespaces():
    """Runs this script again in new namespaces. Prints a message if the machine does not allow them."""
    if os.environ.get(INSIDE):
        return
    missing = [tool for tool in ("ip", "unshare", "nsenter") if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if missing:
        sys.exit(f"two_node_test needs {', '.join(missing)} (Debian: iproute2, util-linux)")
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    probe = "ip link add probe0 type veth peer name probe1"
    for how in (["unshare", "-nm"], ["unshare", "-Urnm"]):
        if subprocess.run([*how, "sh", "-c", probe], capture_output=True).returncode == 0:
            os.environ[INSIDE] = " ".join(how)
            os.execvp(how[0], [*how, sys.executable, *sys.argv])
    print("this machine allows neither root's nor a user's network namespaces with veth: nothing was tested")
    sys.exit(0)


class Node:
    """A network namespace with a daemon."""

    def __init__(self, name, number, folder, aggregator_port, token, env=None):
        self.name = name
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        self.address, gateway = f"10.77.{number}.2", f"10.77.{number}.1"
        self.folder = folder
        folder.mkdir(mode=0o700)
        self.socket = folder / "client.sock"
        outer = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != outer, f"{name}'s namespace")
        ip = lambda *args: subprocess.run(["ip", *args], check=True)  # noqa: E731
        ip("link", "add", f"veth-{name}", "type", "veth", "peer", "name", "eth0", "netns", str(self.holder.pid))
        ip("addr", "add", f"{gateway}/30", "dev", f"veth-{name}")
        ip("link", "set", f"veth-{name}", "up")
        for args in (("addr", "add", f"{self.address}/30", "dev", "eth0"), ("link", "set", "eth0", "up"),
                     ("link", "set", "lo", "up")):
            subprocess.run(self.inside("ip", *args), check=True)
        self.log = open(folder / "lockstepd.log", "w")
        self.daemon = subprocess.Popen(
            self.inside(str(BIN / "lockstepd"), "--socket", str(self.socket), "--node-id", name, "--token-file", str(token),
                        "--aggregator", f"{gateway}:{aggregator_port}"),
            env={**os.environ, **(env or {})}, stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def inside(self, *command):
        return ["nsenter", "-t", str(self.holder.pid), "-n", *command]

    def close(self):
        for process in (self.daemon, self.holder):
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        self.log.close()
        subprocess.run(["ip", "link", "del", f"veth-{self.name}"], capture_output=True)


class TwoNodes(unittest.TestCase):
    bounds_ns = []  # of all captures

    @classmethod
    def setUpClass(cls):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        cls.folder = tempfile.TemporaryDirectory(prefix="lk2-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.work = pathlib.Path(cls.folder.name)
        cls.token = cls.work / "token"
        cls.token.write_text(secrets.token_hex(16) + "\n")
        cls.token.chmod(0o600)
        cls.log = open(cls.work / "aggregator.log", "w")
        cls.aggregator = subprocess.Popen(
            [str(BIN / "lockstep-aggregator"), "--listen", "0.0.0.0:0", "--token-file", str(cls.token),
             "--state-dir", str(cls.work / "state")],
            stdout=subprocess.PIPE, stderr=cls.log, text=True)
        cls.addClassCleanup(cls.end_aggregator)
        line = cls.aggregator.stdout.readline()
        if "listening on" not in line:
            raise RuntimeError((cls.work / "aggregator.log").read_text() + line)
        cls.port = int(line.rsplit(":", 1)[1].split()[0])
        # At this moment b's clock is 10 ms ahead. It drifts from then on.
        cls.reference = time.monotonic_ns()
        clock = f"{AHEAD_NS}:{DRIFT_PPM * 1000}:{cls.reference}"
        cls.nodes = []
        cls.addClassCleanup(lambda: [node.close() for node in cls.nodes])
        cls.nodes.append(Node("a", 1, cls.work / "a", cls.port, cls.token))
        cls.nodes.append(Node("b", 2, cls.work / "b", cls.port, cls.token,
                              {"LD_PRELOAD": str(PRELOAD), "LOCKSTEP_TEST_CLOCK": clock}))

    @classmethod
    def end_aggregator(cls):
        cls.aggregator.terminate()
        cls.aggregator.wait(60)
        cls.aggregator.stdout.close()
        cls.log.close()

    def job(self, *rank_args):
        """Returns a job with ranks 0-3 on node a and 4-7 on node b, under one mpiexec."""
        work = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        job = LiveJob(BIN, work, rank_args=rank_args)
        rank = [str(BIN / "lockstep"), "run", "--", str(BIN / "lockstep-sim-rank"), "--forever", "--truth", str(job.truth),
                "--ranks-per-host", "4", *map(str, rank_args)]
        clock = ["--clock-offset-ns", str(AHEAD_NS), "--clock-drift-ppm", str(DRIFT_PPM), "--clock-reference-ns", str(self.reference)]
        a, b = (["-n", "4", "env", f"LOCKSTEP_SOCKET={node.socket}"] for node in self.nodes)
        job.command = ["mpiexec", "--oversubscribe", "--bind-to", "none", *a, *rank, ":", *b, *rank, *clock]
        # In a user namespace this is user 0. Its default session folder in /tmp may belong to the real root.
        job.env["OMPI_MCA_orte_tmpdir_base"] = str(self.work)
        job.env.update({"LOCKSTEP_AGGREGATOR": f"127.0.0.1:{self.port}", "LOCKSTEP_TOKEN_FILE": str(self.token)})
        return job

    def check(self, judge, *rank_args):
        """Captures a job, checks its clock, and calls `judge(report)`. Repeats all if the machine's load spoiled
        them."""
        def attempt(pace):
            report = self.capture(*pace, *rank_args)
            self.assert_clock(report)
            judge(report)
        repeat_when_late(attempt, lambda: self.latest.output())

    def capture(self, *rank_args):
        job = self.latest = self.job(*rank_args)
        with job:
            status = job.wait_for_ranks()
            out = job.work / "capture"
            done = job.trace(out, "--duration", "2s")
            logs = "".join(p.read_text()[-3000:] for p in self.work.glob("**/*.log"))
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout + logs)
        by_node = {d["node_id"]: sorted(r["rank"] for r in d["ranks"]) for d in status["daemons"]}
        self.assertEqual(by_node, {"a": [0, 1, 2, 3], "b": [4, 5, 6, 7]}, status)
        return report_of(out)

    def assert_clock(self, report):
        capture = report["capture"]
        clock = capture["clock"]
        hosts = {h["host"].rsplit("/", 1)[-1]: h for h in clock["hosts"]}
        self.assertEqual(set(hosts), {"a", "b"}, clock)
        middle = capture["start_unix_ns"] + capture["duration_ns"] // 2
        monotonic = time.monotonic_ns() - (time.time_ns() - middle)
        injected = AHEAD_NS + DRIFT_PPM * 1e-6 * (monotonic - self.reference)
        estimated = hosts["b"]["offset_ns"] - hosts["a"]["offset_ns"]
        print(f"b's clock is ahead by {injected / 1e3:.1f} us; estimated {estimated / 1e3:.1f} us, off by "
              f"{(estimated - injected) / 1e3:+.1f} us with a stated bound of {clock['bound_ns'] / 1e3:.1f} us; drift "
              f"{hosts['b']['drift_ppm'] - hosts['a']['drift_ppm']:.2f} ppm of {DRIFT_PPM}; methods "
              f"{hosts['a']['method']}/{hosts['b']['method']}", file=sys.stderr)
        self.assertLessEqual(abs(estimated - injected), clock["bound_ns"], clock)
        # The bound depends on the response time of a busy machine (docs/measurements.md). The last test
        # checks all bounds together.
        self.bounds_ns.append(clock["bound_ns"])
        self.assertLess(clock["bound_ns"], AHEAD_NS / 2, "the bound must be less than the difference of the clocks")

    def assert_named(self, report, rank, fault):
        self.assertTrue(report["stragglers"], json.dumps(report["slowdown"]))
        first = report["stragglers"][0]
        self.assertIn(rank, first["ranks"], first)
        self.assertIn(first["cause"], CAUSES[fault], first)

    def check_fault(self, fault, rank, size):
        self.check(lambda report: self.assert_named(report, rank, fault), "--seed", "7", "--fault", fault, "--fault-rank", rank,
                   "--fault-size", size)

    def test_names_a_slow_gpu_on_node_a(self):
        self.check_fault("slow_gpu", 2, 0.2)

    def test_names_a_slow_gpu_on_node_b(self):
        self.check_fault("slow_gpu", 5, 0.2)

    def test_names_a_stalled_host_on_node_b(self):
        self.check_fault("host_stall", 7, 0.15)

    def test_names_a_slow_link_on_node_b(self):
        self.check_fault("slow_link", 6, 0.15)

    def test_names_slow_copies_on_node_a(self):
        self.check_fault("copy", 1, 0.15)

    def test_a_healthy_job_has_no_straggler(self):
        self.check(lambda report: self.assertEqual(report["stragglers"], []), "--seed", "7", "--fault", "none")

    def test_z_most_bounds_are_below_a_millisecond(self):
        if not self.bounds_ns:
            self.skipTest("judges the bounds of the captures above, and none was asked for")
        self.assertLess(statistics.median(self.bounds_ns), 1_000_000, self.bounds_ns)


if __name__ == "__main__":
    enter_namespaces()
    print(f"in namespaces made by `{os.environ[INSIDE]}`", file=sys.stderr)
    del sys.argv[1:3]
    unittest.main(verbosity=2)
