"""Runs deploy/kubernetes/ without a cluster. It types the commands of docs/kubernetes.md.
tests/kubernetes/pod_runner.py runs the resulting pods as a kubelet would, with their command lines, rights,
volumes and paths."""
import json
import os
import pathlib
import re
import ssl
import shutil
import sys
import time
import unittest
import urllib.error
import urllib.request

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "tests" / "support"), str(REPOSITORY / "tests" / "kubernetes")]
from kubernetes_cluster import Cluster  # noqa: E402
from live_job import report_of  # noqa: E402
from pod_runner import ADDRESS, Image, enter, run  # noqa: E402
from waiting import wait_until  # noqa: E402
from verdict import CAUSES  # noqa: E402

BIN, KUBECTL = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
PAGE = (REPOSITORY / "docs" / "kubernetes.md").read_text()
VERSION = (REPOSITORY / "VERSION").read_text().strip()
SLOW_RANK = 2
# A user's program, and the contents of a user's image for the MPI operator. Its sshd has only the part that
# mpirun uses.
TRAIN = f"""\
import os
os.execv("/workspace/bin/lockstep-sim-rank", ["lockstep-sim-rank", "--forever", "--seed", "7", "--time-scale", "4", "--microbatches", "2", "--fault", "slow_gpu",
         "--fault-rank", "{SLOW_RANK}", "--fault-size", "0.3"])
"""
SSHD = """\
#!/usr/bin/python3
import os, socket
door = socket.socket(socket.AF_UNIX)
door.bind("\\0sshd-" + os.uname().nodename)
door.listen()
while True:
    caller, _ = door.accept()
    if os.fork() == 0:
        command, streams, _, _ = socket.recv_fds(caller, 65536, 3)
        child = os.fork()
        if child == 0:
            os.setsid()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            # As sshd does: nothing of the container's environment.
            os.execve("/bin/sh", ["sh", "-c", command.decode()], {"PATH": "/usr/bin:/bin", "HOME": "/root", "USER": "root"})
        caller.send(bytes([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255]))
        os._exit(0)
"""
SSH = """\
#!/usr/bin/python3
import socket, sys, time
words = sys.argv[1:]
while words[0].startswith("-"):
    words = words[2:] if words[0] in ("-o", "-l", "-p") else words[1:]
for _ in range(100):
    to = socket.socket(socket.AF_UNIX)
    try:
        to.connect("\\0sshd-" + words[0].split(".")[0])
        break
    except OSError:
        time.sleep(0.1)
socket.send_fds(to, [" ".join(words[1:]).encode()], [0, 1, 2])
sys.exit((to.recv(1) or b"\\1")[0])
"""


def block(name):
    """Returns the commands of docs/kubernetes.md after <!-- run: name -->, or the file after <!-- file: name
    -->."""
    found = re.search(rf"<!-- (?:run|file): {re.escape(name)} -->\n```(?:sh|yaml)\n(.*?)```", PAGE, re.S)
    if not found:
        raise AssertionError(f"docs/kubernetes.md has no block {name}")
    return found.group(1)


class Images:
    """The images, made once: Lockstep's by its Containerfile from this build's bundle, the user's from this
    machine's files."""
    made = None

    @classmethod
    def make(cls):
        if cls.made:
            return cls.made
        work = pathlib.Path("/mnt/images")
        work.mkdir()
        run("bash", REPOSITORY / "tools/dev/bundle.sh", "--built", BIN.parent, "--out", work / "build", "--level", "1", cwd=REPOSITORY,
            timeout=300)
        run("bash", REPOSITORY / "tools/dev/image.sh", "--out", work / "build", "--context-only", cwd=REPOSITORY)
        ours = Image.build(REPOSITORY / "deploy/kubernetes/image/Containerfile", context=work / "build/image", into=work / "lockstep")
        user = work / "user"
        for folder in ("workspace/bin", "workspace/lib", "usr/sbin", "usr/bin", "opt/lockstep", "run", "tmp"):
            (user / folder).mkdir(parents=True)
        (user / "tmp").chmod(0o1777)
        shutil.copy(BIN / "lockstep-sim-rank", user / "workspace/bin")
        # A CUDA program and the simulated stack for it.
        shutil.copy(BIN / "lockstep_train_loop", user / "workspace/bin")
        shutil.copytree(BIN.parent / "lib/sim_stack", user / "workspace/stack", symlinks=True)
        shutil.copy(BIN.parent / "lib/liblockstep_sim_cupti.so", user / "workspace/lib")
        (user / "workspace/train.py").write_text(TRAIN)
        for path, text in (("usr/sbin/sshd", SSHD), ("usr/bin/ssh", SSH)):
            (user / path).write_text(text)
            (user / path).chmod(0o755)
        # This machine's /tmp and /run must not appear in the user's image.
        for name in ("tmp", "run"):
            os.setxattr(user / name, "trusted.overlay.opaque", b"y")
        cls.made = {f"lockstep:{VERSION}": ours, "my-training:latest": Image(user, "/", env={"OMPI_MCA_rmaps_base_oversubscribe": "1"})}
        return cls.made


class ClusterTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(KUBECTL, Images.make(), BIN)
        self.addCleanup(self.cluster.stop)
        # The folder of the user's shell is a checkout.
        self.folder = self.cluster.node.work / "checkout"
        self.folder.mkdir()
        (self.folder / "deploy").symlink_to(REPOSITORY / "deploy")

    def type(self, name, **kwargs):
        return self.cluster.sh(block(name), self.folder, **kwargs)

    def logs(self):
        return "".join(f"--- {pod.name}/{name}\n{container.log()[-3000:]}" for pod in self.cluster.node.pods
                       for name, container in pod.containers.items())

    def ranks(self, namespace):
        done = self.cluster.container(namespace, "deploy/lockstep-aggregator").exec("lockstep", "status", "--format", "json", check=False)
        return [(daemon, rank) for daemon in json.loads(done.stdout)["daemons"] for rank in daemon["ranks"]] if done.stdout else []

    def wait_for_ranks(self, namespace, count):
        wait_until(lambda: len(self.ranks(namespace)) >= count, f"{count} ranks", self.logs)
        return self.ranks(namespace)

    def report(self, container):
        return json.loads(container.exec("lockstep", "report", "/tmp/capture", "--format", "json").stdout)

    def get(self, port, path, token=None):
        request = urllib.request.Request(f"https://{ADDRESS}:{port}{path}", headers={"Authorization": f"Bearer {token}"} if token else {})
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        context.check_hostname = False  # the address is not in the certificate
        try:
            with urllib.request.urlopen(request, timeout=10, context=context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""


class NodeDaemon(ClusterTest):
    """Tests one daemon for the node and one aggregator for all jobs."""

    def setUp(self):
        super().setUp()
        for name in ("namespaces", "install", "check", "binding"):
            self.type(name)
        self.aggregator = self.cluster.wait_ready("lockstep", "deploy/lockstep-aggregator")
        self.daemon = self.cluster.wait_ready("lockstep-daemon", "DaemonSet/lockstepd")
        self.cluster.namespaces["team-a"] = {}

    def test_captures_an_mpi_job_over_two_pods_from_the_aggregators_pod(self):
        self.type("mpijob")
        ranks = self.wait_for_ranks("lockstep", 4)
        self.assertEqual(sorted(rank["rank"] for _, rank in ranks), [0, 1, 2, 3])
        self.assertEqual({rank["job"] for _, rank in ranks}, {"team-a.train"})
        self.assertEqual({d["host"] for d, _ in ranks}, {"gpu-node-1"}, "not the name of the daemon's pod")
        namespaces = {os.readlink(f"/proc/{rank['pid']}/ns/pid") for _, rank in ranks}
        self.assertEqual(len(namespaces | {os.readlink("/proc/self/ns/pid")}), 3, "two workers', and the node's")
        traced = self.type("trace")
        self.assertIn("rank 2 ", traced.stdout, traced.stderr)
        report = self.report(self.aggregator)
        capture = report["capture"]
        self.assertEqual((capture["job"], capture["world_size"], capture["missing_ranks"], capture["losses"]), ("team-a.train", 4, [], []))
        self.assertEqual(report["stragglers"][0]["ranks"], [SLOW_RANK])
        self.assertIn(report["stragglers"][0]["cause"], CAUSES["slow_gpu"])
        self.assertIn("<html", (self.folder / "report.html").read_text()[:300])
        # The user's own machine, which shares the node's network here.
        self.type("forward")
        self.assertEqual(report_of(self.folder / "capture")["stragglers"][0]["ranks"], [SLOW_RANK])
        self.assert_health_and_metrics()
        self.assert_nothing_stays()

    def assert_health_and_metrics(self):
        token = (self.folder / "token").read_text()
        self.cluster.sh("lockstep node authority . --token-file token", self.folder)
        for name, container, port in (("daemon", self.daemon, 9464), ("aggregator", self.aggregator, 9465)):
            took = container.probe("livenessProbe")
            print(f"{name}'s liveness probe took {took * 1000:.0f} ms", file=sys.stderr)
            container.probe("readinessProbe")
            self.assertEqual(self.get(port, "/healthz")[0], 401)
            code, page = self.get(port, "/healthz", token)
            self.assertEqual((code, "uplink" in page or name == "aggregator"), (200, True), page)
            self.assertIn("lockstep_", self.get(port, "/metrics", token)[1])
        for line in self.daemon.log().splitlines():
            json.loads(line)

    def assert_nothing_stays(self):
        for owner in ("MPIJob/train-launcher", "train-worker-0", "train-worker-1"):
            self.cluster.pod("team-a", owner).stop()
        wait_until(lambda: not self.ranks("lockstep"), "no ranks", self.logs)
        rings = [link for link in (f"/proc/{self.daemon.pid()}/fd/{fd}" for fd in os.listdir(f"/proc/{self.daemon.pid()}/fd"))
                 if "memfd" in os.readlink(link)]
        self.assertEqual(rings, [])
        self.cluster.stop()
        self.assertEqual([p for p in comms() if p.startswith("lockstep")], [])

    def test_captures_a_job_with_the_component(self):
        self.type("component")
        ranks = self.wait_for_ranks("lockstep", 4)
        self.assertEqual(sorted((rank["job"], rank["rank"]) for _, rank in ranks), [("team-a.train", i) for i in range(4)])
        self.type("trace")
        self.assertEqual(self.report(self.aggregator)["stragglers"][0]["ranks"], [SLOW_RANK])

    def test_names_an_unregistered_rank_of_another_user(self):
        """Checks both capabilities that the daemon needs to read another user's process in /proc."""
        first = self.warning_of_a_lost_rank(self.daemon, "first")
        self.assertIn("rank 3 (pid ", first, self.logs())
        self.assertIn("the command of `lockstep run` has dropped the variables", first)
        for lacking in ("DAC_READ_SEARCH", "SYS_PTRACE"):
            with self.subTest(lacking):
                self.daemon.end(15)
                self.daemon.process.wait(20)
                self.daemon = self.start_daemon_without(lacking)
                self.assertNotIn("rank 3 (pid ", self.warning_of_a_lost_rank(self.daemon, lacking.lower().replace("_", "-")))

    def start_daemon_without(self, capability):
        (daemon,) = [t for t in self.cluster.rendered("deploy/kubernetes/base", self.folder) if t["kind"] == "DaemonSet"]
        daemon["metadata"]["name"] = f"without-{capability.lower().replace('_', '-')}"
        daemon["spec"]["template"]["spec"]["containers"][0]["securityContext"]["capabilities"]["add"].remove(capability)
        self.cluster.apply(daemon)
        return self.cluster.wait_ready("lockstep-daemon", f"DaemonSet/{daemon['metadata']['name']}")

    def warning_of_a_lost_rank(self, daemon, name):
        """Starts a job of user 1000 whose script drops the environment between `lockstep run` and the
        program. Returns the daemon's warning about it, or ""."""
        user = "restartPolicy: Never\n      securityContext: {runAsUser: 1000, runAsGroup: 1000}"
        job = block("component").replace("restartPolicy: Never", user).replace("name: train\n  namespace", f"name: {name}\n  namespace")
        lost = ["env", "-i", "OMPI_COMM_WORLD_RANK=3", "LD_LIBRARY_PATH=/workspace/stack", "SIMGPU_KERNELS=*matmul*=20ms",
                "/workspace/bin/lockstep_train_loop", "--id-file", "/tmp/id", "--steps", "0"]
        self.cluster.sh(re.sub(r"command: \[.*\]", "command: " + json.dumps(lost), job), self.folder)
        pid = self.cluster.container("team-a", f"{name}-0").pid()
        deadline = time.monotonic() + 16
        while time.monotonic() < deadline:
            status = json.loads(daemon.exec("lockstep", "status", "--format", "json").stdout)
            warnings = [warning for warning in status["daemons"][0]["warnings"] if f"pid {pid}, " in warning]
            if warnings:
                return warnings[0]
            time.sleep(0.5)
        return ""

    def test_the_daemon_has_only_the_rights_that_it_needs(self):
        daemon = pathlib.Path(f"/proc/{self.daemon.pid()}")
        status = (daemon / "status").read_text()
        self.assertEqual(int(re.search(r"CapEff:\s*(\w+)", status)[1], 16), 0)
        self.assertNotRegex(status, r"(?m)^Uid:\t0\b")
        self.assertIn("NoNewPrivs:\t1", status)
        (broker,) = (daemon / "task" / daemon.name / "children").read_text().split()
        status = pathlib.Path(f"/proc/{broker}/status").read_text()
        self.assertIn("Name:\tlockstep-broker", status)
        held = int(re.search(r"CapEff:\s*(\w+)", status)[1], 16)
        self.assertEqual(held, 1 << 19 | 1 << 7 | 1 << 6 | 1 << 2, "CAP_SYS_PTRACE, CAP_SETUID, CAP_SETGID, CAP_DAC_READ_SEARCH")
        self.assertIn("NoNewPrivs:\t1", status)
        status = pathlib.Path(f"/proc/{self.aggregator.pid()}/status").read_text()
        self.assertEqual(int(re.search(r"CapEff:\s*(\w+)", status)[1], 16), 0)
        self.assertIn("Uid:\t7077", status)
        self.assertNotEqual(self.daemon.exec("touch", "/opt/lockstep/x", check=False).returncode, 0)

    def test_a_namespace_without_host_paths_refuses_the_job(self):
        self.cluster.namespaces["team-a"] = {"pod-security.kubernetes.io/enforce": "baseline"}
        refused = self.type("component", check=False)
        self.assertIn("violate PodSecurity baseline: hostPath volume lockstep-socket", refused.stderr)


class Certificates(ClusterTest):
    """Tests the recipe for cert-manager."""

    def test_daemons_have_certificates_and_a_token_of_their_own(self):
        self.type("namespaces")
        self.cluster.node.secrets[("lockstep-daemon", "lockstep-token")] = {"token": b"a-token-for-the-daemons-metrics"}
        self.type("authority")
        self.assertEqual([path.name for path in self.folder.glob("authority.*")], [])
        self.type("certificates")
        aggregator = self.cluster.wait_ready("lockstep", "deploy/lockstep-aggregator")
        daemon = self.cluster.wait_ready("lockstep-daemon", "DaemonSet/lockstepd")

        def status():
            done = aggregator.exec("lockstep", "status", "--format", "json", check=False)
            return json.loads(done.stdout) if done.stdout else {"daemons": []}

        wait_until(lambda: status()["daemons"], "the daemon's connection", self.logs)
        self.assertEqual([(each["host"], each["node_id"]) for each in status()["daemons"]], [("gpu-node-1", daemon.pod.name)])
        audit = (self.cluster.node.claims[("lockstep", "lockstep-captures")] / "audit.jsonl").read_text()
        self.assertNotIn('"refused"', audit)
        # Without the certificate, the daemon's token does not suffice.
        (other,) = [thing for thing in self.cluster.rendered("site", self.folder) if thing["kind"] == "DaemonSet"]
        other["metadata"]["name"] = "without-certificate"
        spec = other["spec"]["template"]["spec"]
        spec["containers"][0]["env"] = [each for each in spec["containers"][0]["env"] if each["name"] != "LOCKSTEP_TLS_DIR"]
        daemon.end(15)
        daemon.process.wait(20)
        self.cluster.apply(other)
        refused = self.cluster.container("lockstep-daemon", "DaemonSet/without-certificate")
        wait_until(lambda: '"uplink_down"' in refused.log(), "a refusal", self.logs)
        self.assertIn("or --tls-dir if it uses certificates", refused.log())


class InPodDaemon(ClusterTest):
    """Tests a restricted namespace, in which pods may use nothing of the node."""

    def test_a_teams_aggregator_captures_a_job_with_its_own_daemon(self):
        self.type("team")
        aggregator = self.cluster.wait_ready("team-a", "deploy/lockstep-aggregator")
        self.type("team-job")
        ranks = self.wait_for_ranks("team-a", 4)
        self.assertEqual({(d["host"], rank["job"], rank["uid"]) for d, rank in ranks}, {("gpu-node-1", "team-a.train", 1000)})
        self.type("team-trace")
        self.assertEqual(self.report(aggregator)["stragglers"][0]["ranks"], [SLOW_RANK])


def comms():
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                found.append((entry / "comm").read_text().strip())
        except OSError:
            continue
    return found


def tearDownModule():
    shutil.rmtree("/mnt/images", ignore_errors=True)


if __name__ == "__main__":
    enter()
    del sys.argv[1:3]
    unittest.main(verbosity=2)
