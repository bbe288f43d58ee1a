"""Tests the bundle and the client in roots that are older and smaller than the build machine. One is Debian
11 (glibc 2.31). The other holds busybox, the bundle, and a program with its libraries. Ranks with the
client run on the old glibc. They are captured from outside the root and from inside.

Packages come from Debian's mirror once (build/debs). Without the mirror the test fails with a message. It
uses its own namespaces for mounts, chroots and pids, as root or as a user under `unshare -Urm`."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SUPPORT))
from debs import Debs  # noqa: E402
from sandbox import Sandbox, may_mount  # noqa: E402
from waiting import wait_until  # noqa: E402
from live_job import report_of  # noqa: E402
from old_root import TRIPLET, link_for, make_root, newest_symbol, run  # noqa: E402

INSIDE = "LOCKSTEP_TEST_IN_NAMESPACE"
BIN = pathlib.Path(sys.argv[1]).resolve()
BUILD = BIN.parent
GLIBC = (2, 31)
# The oldest supported glibc (docs/bundle.md).
FLOOR = (2, 17)
LOCKSTEP = "/opt/lockstep/bin/lockstep"
# Libraries of the C and C++ runtime that the program needs, besides the loader.
LIBRARIES = ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1"]


def enter_namespace():
    """Runs this script again in a namespace that permits mount and chroot."""
    if INSIDE in os.environ:
        return
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for how in (["-m"], ["-Urm"]):
        if may_mount(*how):
            os.environ[INSIDE] = " ".join(how)
            os.execvp("unshare", ["unshare", *how, sys.executable, *sys.argv])
    sys.exit("this machine lets neither root nor a user mount in a namespace: what runs in an old root cannot be tested")


class Made:
    """The roots, made once."""
    @classmethod
    def make(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="lk-o"))
        unittest.addModuleCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        run(["bash", ROOT / "tools/dev/bundle.sh", "--built", BUILD, "--out", cls.work / "out", "--level", "1"], cwd=ROOT)
        cls.bundle = cls.work / "bundle"
        cls.bundle.mkdir()
        run(["tar", "-C", cls.bundle, "--strip-components=1", "--zstd", "-xf", next((cls.work / "out").glob("*.tar.zst"))])
        cls.old = cls.work / "debian11"
        make_root(BUILD, "bullseye", cls.old)
        link_for(cls.old, BUILD, "bin/lockstep_train_loop", cls.work / "app")
        cls.minimal = cls.work / "minimal"
        cls.make_minimal()
        for root in (cls.old, cls.minimal):
            shutil.copytree(cls.bundle, root / "opt/lockstep")
            shutil.copytree(cls.work / "app", root / "app")
            (root / "run/lockstep").mkdir(parents=True)

    @classmethod
    def make_minimal(cls):
        Debs(BUILD / "debs").unpack(["busybox-static"], cls.work / "busybox")
        for folder in ("bin", "lib64", "lib", "proc", "dev", "tmp", "run"):
            (cls.minimal / folder).mkdir(parents=True)
        shutil.copy(cls.work / "busybox/bin/busybox", cls.minimal / "bin/busybox")
        for name in ("sh", "sleep", "env"):
            (cls.minimal / "bin" / name).symlink_to("busybox")
        shutil.copy(cls.old / f"lib/{TRIPLET}/ld-2.31.so", cls.minimal / "lib64/ld-linux-x86-64.so.2")
        for name in LIBRARIES:
            shutil.copy(cls.old / f"lib/{TRIPLET}" / name, cls.minimal / "lib" / name)
        shutil.copy(cls.old / f"usr/lib/{TRIPLET}/libstdc++.so.6", cls.minimal / "lib/libstdc++.so.6")


class InARoot:
    """Tests that must pass in each root."""

    def setUp(self):
        self.sandbox = Sandbox(BIN)
        self.addCleanup(self.sandbox.close)
        self.root = self.root_of()
        for path, at in (("/dev", "dev"), (self.sandbox.sockets, "run/lockstep")):
            subprocess.run(["mount", "--rbind", path, self.root / at], check=True)
            self.sandbox.mounts.append(self.root / at)

    def inside(self, *command):
        """Returns a command that runs in its own pid and mount namespaces, as in a container."""
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--root", self.root, "--wd", "/", "--",
                *map(str, command)]

    def start(self, socket, steps=0, ranks=2):
        """Starts the program under `lockstep run`, with all ranks in one container."""
        for name in (self.root / "tmp").glob("id*"):
            name.unlink()
        each = f"{LOCKSTEP} run -- /app/lockstep_train_loop --id-file /tmp/id --steps {steps}"
        script = "".join(f"RANK={rank} LOCAL_RANK={rank} WORLD_SIZE={ranks} {each} & all=\"$all $!\"; " for rank in range(ranks))
        script += "for rank in $all; do wait $rank || exit 1; done"
        env = {"PATH": "/bin:/usr/bin", "LD_LIBRARY_PATH": "/app", "SIMGPU_KERNELS": "*matmul*=20ms", "LOCKSTEP_JOB": "old"}
        if socket:
            env["LOCKSTEP_SOCKET"] = socket
        return self.sandbox.start(self.inside("/bin/sh", "-c", script), whole_env=env)

    def assert_report(self, folder, ranks=2):
        report = report_of(folder)
        self.assertEqual(len(report["ranks"]), ranks)
        capture = report["capture"]
        self.assertEqual((capture["world_size"], capture["missing_ranks"], capture["losses"]), (ranks, [], []))
        self.assertTrue(all(rank["compute_ns"] > 0 and rank["communication_ns"] > 0 for rank in report["ranks"]), report["ranks"])
        self.assertGreater(report["capture"]["matching"]["by"]["nccl_seq"], 0, report["capture"]["matching"])

    def test_captures_ranks_inside_from_outside(self):
        self.sandbox.start_daemon()
        job = self.start("/run/lockstep/client.sock")
        wait_until(lambda: len(self.sandbox.status()["ranks"]) == 2, "two ranks", lambda: job.output.read_text() + str(self.sandbox.status()))
        for rank in self.sandbox.status()["ranks"]:
            maps = pathlib.Path(f"/proc/{rank['pid']}/maps").read_text()
            self.assertIn("/opt/lockstep/lib/liblockstep_client.so", maps)
            self.assertIn(self.LIBC, maps)
            self.assertNotIn("/opt/lockstep/lib/libc.so.6", maps, "the bundle's own libc is for its own programs")
        done = self.sandbox.run("trace", "--duration", "1s", "-o", self.sandbox.folder / "capture")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assert_report(self.sandbox.folder / "capture")

    def test_the_bundle_works_inside(self):
        """`lockstep run` starts a daemon inside the root, and status and trace run inside it."""
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "none", self.root / "tmp"], check=True)
        self.sandbox.mounts.append(self.root / "tmp")
        job = self.start(None)
        here = ["unshare", "--mount", "--root", self.root, "--wd", "/", "--", LOCKSTEP]

        def lockstep(*words):
            return subprocess.run([str(word) for word in (*here, *words)], capture_output=True, text=True, env={}, timeout=60)

        wait_until(lambda: "ranks 0, 1 of 2" in lockstep("status").stdout, "two ranks",
                   lambda: job.output.read_text() + lockstep("status").stdout)
        self.assertIn("daemon at /tmp/lockstep-", job.output.read_text())
        done = lockstep("trace", "--duration", "1s", "-o", "/tmp/capture")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assert_report(self.root / "tmp/capture")

    def test_the_program_runs_to_its_end(self):
        self.sandbox.start_daemon()
        job = self.start("/run/lockstep/client.sock", steps=5)
        self.assertEqual(job.wait(60), 0, job.output.read_text())
        self.assertEqual(job.output.read_text().count("every sum is right"), 1)


class Debian11(InARoot, unittest.TestCase):
    LIBC = "/libc-2.31.so"

    def root_of(self):
        return Made.old

    def test_binaries_need_no_newer_symbols(self):
        says = subprocess.run(self.inside(f"/lib/{TRIPLET}/libc.so.6"), capture_output=True, text=True, check=True).stdout
        self.assertIn("version 2.31", says)
        for path in (Made.work / "app").iterdir():
            self.assertLessEqual(newest_symbol(path), GLIBC, path)
        client = newest_symbol(Made.bundle / "lib/liblockstep_client.so")
        print(f"the client asks for glibc {client[0]}.{client[1]}")
        self.assertLessEqual(client, FLOOR)


class Minimal(InARoot, unittest.TestCase):
    LIBC = "/lib/libc.so.6"

    def root_of(self):
        return Made.minimal

    def test_a_static_command_runs_unchanged(self):
        self.sandbox.start_daemon()
        done = subprocess.run(self.inside(LOCKSTEP, "run", "--", "/bin/env"), capture_output=True, text=True, check=True,
                              env={"LOCKSTEP_SOCKET": "/run/lockstep/client.sock"})
        self.assertIn("CUDA_INJECTION64_PATH=/opt/lockstep/lib/liblockstep_client.so\n", done.stdout)


def setUpModule():
    Made.make()


if __name__ == "__main__":
    enter_namespace()
    unittest.main(verbosity=2, argv=sys.argv[:1] + sys.argv[2:])
