"""Tests the bundle of this build: its size, its files, and its programs in an empty chroot on a kernel
without system calls newer than 4.18. The daemon and the CLI inside the chroot capture ranks outside it.

It mounts and chroots in its own mount namespace, as root or as a user under `unshare -Urm`."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from late_ranks import RANK_ARGS  # noqa: E402
from live_job import LiveJob, report_of  # noqa: E402
from machine_root import output, run  # noqa: E402
from waiting import wait_until  # noqa: E402

INSIDE = "LOCKSTEP_TEST_IN_NAMESPACE"
ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.argv[1]).resolve()
PROGRAMS = {"lockstep", "lockstepd", "lockstep-aggregator"}
MOST_BYTES = 25_000_000
OLDEST_KERNEL = (4, 18, 0)
# Variables that `lockstep run` sets (lockstep run --help), and the folder of Kineto's socket
# (docs/kineto.md).
SET_BY_RUN = ["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN", "LOCKSTEP_SOCKET"]


def enter_namespace():
    """Runs this script again in a namespace that permits mount and chroot. Without one, it leaves out the
    tests that need it."""
    if os.environ.get(INSIDE):
        return
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for how in (["unshare", "-m"], ["unshare", "-Urm"]):
        if subprocess.run([*how, "sh", "-c", "mount -t tmpfs none /tmp && chroot / true"], capture_output=True).returncode == 0:
            os.environ[INSIDE] = " ".join(how)
            os.execvp(how[0], [*how, sys.executable, *sys.argv])
    os.environ[INSIDE] = ""


class Bundle:
    """The bundle, built once from the programs of this build."""
    folder = None

    @classmethod
    def make(cls):
        if cls.folder:
            return cls
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="lk-b"))
        done = run("bash", ROOT / "tools/dev/bundle.sh", "--built", BIN.parent, "--out", cls.work / "out", "--level", "9", cwd=ROOT)
        if done.returncode != 0:
            raise RuntimeError(f"bundle.sh: {done.returncode}\n{done.stdout}{done.stderr}")
        cls.archive = next((cls.work / "out").glob("*.tar.zst"))
        # The archive is unpacked, as a user does it.
        cls.root = cls.work / "r"
        cls.root.mkdir()
        subprocess.run(["tar", "-C", cls.root, "--zstd", "-xf", cls.archive], check=True)
        cls.folder = next(cls.root.iterdir())
        return cls

    @classmethod
    def remove(cls):
        if cls.folder:
            shutil.rmtree(cls.work, ignore_errors=True)


def needed_by(path):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", path)))


class Shape(unittest.TestCase):
    """Checks the properties that the files show."""

    @classmethod
    def setUpClass(cls):
        Bundle.make()
        cls.folder = Bundle.folder
        cls.objects = sorted((cls.folder / "lib").iterdir()) + sorted((cls.folder / "libexec").iterdir())

    def test_archive_has_the_documented_name_and_size(self):
        version = (ROOT / "VERSION").read_text().strip()
        self.assertEqual(Bundle.archive.name, f"lockstep-{version}-x86_64.tar.zst")
        self.assertEqual(self.folder.name, f"lockstep-{version}-x86_64")
        size = Bundle.archive.stat().st_size
        print(f"bundle: {size / 1e6:.1f} MB at a quick level of compression")
        self.assertLessEqual(size, MOST_BYTES)

    def test_folder_has_the_documented_parts_and_no_links_outside(self):
        self.assertEqual({p.name for p in self.folder.iterdir()},
                         {"bin", "lib", "libexec", "licenses", "gpu-check", "slurm", "docs", "include", "README.md", "VERSION"})
        self.assertEqual({p.name for p in (self.folder / "bin").iterdir()}, PROGRAMS)
        self.assertEqual({p.name for p in (self.folder / "libexec").iterdir()}, PROGRAMS)
        self.assertEqual([p for p in self.folder.rglob("*") if p.is_symlink()], [])
        tar = Bundle.work / "plain.tar"
        subprocess.run(["zstd", "-qd", Bundle.archive, "-o", tar], check=True)
        with tarfile.open(tar) as plain:
            self.assertEqual({(member.uid, member.gid) for member in plain}, {(0, 0)})
        tar.unlink()

    def test_starters_are_static(self):
        for starter in (self.folder / "bin").iterdir():
            self.assertNotIn("INTERP", output("readelf", "-lW", starter), starter)
            self.assertEqual(needed_by(starter), set(), starter)
            self.assertLess(starter.stat().st_size, 1_000_000)

    def test_has_every_needed_library_once(self):
        lib = {p.name for p in (self.folder / "lib").iterdir()}
        self.assertLessEqual({"ld-linux-x86-64.so.2", "libc.so.6", "libstdc++.so.6", "liblockstep_client.so"}, lib)
        for path in self.objects:
            if path.name != "liblockstep_client.so":
                self.assertLessEqual(needed_by(path), lib, path)
        used = set().union(*(needed_by(path) for path in self.objects))
        self.assertEqual(lib - used, {"liblockstep_client.so"}, "libraries that no program needs")

    def test_no_binary_has_a_library_path(self):
        for path in self.objects:
            self.assertNotRegex(output("readelf", "-dW", path), r"\((RPATH|RUNPATH)\)", path)

    def test_no_binary_requires_a_newer_kernel_or_processor(self):
        asked = 0
        for path in self.objects + sorted((self.folder / "bin").iterdir()):
            notes = output("readelf", "-nW", path)
            for version in re.findall(r"OS: Linux, ABI: (\d+)\.(\d+)\.(\d+)", notes):
                asked += 1
                self.assertLessEqual(tuple(map(int, version)), OLDEST_KERNEL, path)
            self.assertNotRegex(notes, r"x86 ISA needed:.*x86-64-v[2-9]", path)
        self.assertGreater(asked, 3)

    def test_the_client_library_runs_on_the_hosts_libc_from_2_28(self):
        client = self.folder / "lib" / "liblockstep_client.so"
        self.assertEqual(needed_by(client), {"libc.so.6", "libpthread.so.0", "libdl.so.2"})
        versions = re.findall(r"@GLIBC_(\d+)\.(\d+)", output("readelf", "--dyn-syms", "-W", client))
        self.assertLessEqual(max(tuple(map(int, v)) for v in versions), (2, 28))

    def test_each_library_has_its_licence(self):
        lines = [line.split() for line in (self.folder / "licenses" / "LIBRARIES").read_text().splitlines()]
        lib = {p.name for p in (self.folder / "lib").iterdir()}
        self.assertEqual({line[0] for line in lines}, lib - {"liblockstep_client.so"})
        for _, package, version in lines:
            self.assertGreater((self.folder / "licenses" / package).stat().st_size, 500, package)
            self.assertRegex(version, r"\d")
        for part, words in (("lockstep", "Apache License"), ("libcli11-dev", "BSD"), ("libiberty-dev", "LGPL")):
            self.assertIn(words, (self.folder / "licenses" / part).read_text(), part)
        self.assertIn("MIT", (self.folder / "licenses" / "uplot").read_text(), "what is in the page of report.html")


class Chroot:
    """The folder of the unpacked archive as a root file system. Besides the archive it has only /proc, three devices, an empty
    /tmp and two static helpers. Every command there may use only the system calls of Linux 4.18."""

    def __init__(self):
        self.root = Bundle.root
        self.prefix = f"/{Bundle.folder.name}"
        for folder in ("proc", "dev", "tmp"):
            (self.root / folder).mkdir()
        (self.root / "tmp").chmod(0o1777)
        subprocess.run(["mount", "--rbind", "/proc", self.root / "proc"], check=True)
        for device in ("null", "zero", "urandom"):
            (self.root / "dev" / device).touch()
            subprocess.run(["mount", "--bind", f"/dev/{device}", self.root / "dev" / device], check=True)
        for helper in ("old_kernel", "show_surroundings"):
            subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-static", "-o", self.root / helper, SUPPORT / f"{helper}.c"],
                           check=True)
        # A socket's path has at most 107 bytes, also as seen from outside the chroot.
        self.sockets = pathlib.Path(tempfile.mkdtemp(prefix="s", dir=self.root / "tmp"))
        self.socket = f"/tmp/{self.sockets.name}/client.sock"

    def enter(self):
        os.chroot(self.root)
        os.chdir("/")

    def command(self, program, *args):
        path = program if program.startswith("/") else f"{self.prefix}/bin/{program}"
        return ["/old_kernel", path, *map(str, args)]

    def start(self, program, *args, **kwargs):
        return subprocess.Popen(self.command(program, *args), preexec_fn=self.enter, env={}, stdin=subprocess.DEVNULL, text=True,
                                **kwargs)

    def run(self, program, *args, env=None):
        """`env` is the complete environment of the program."""
        return run(*self.command(program, *args), preexec_fn=self.enter, env={"LOCKSTEP_SOCKET": self.socket} if env is None else env)

    def daemons(self):
        """Returns the pids of the bundle's daemons, found by process name and root folder."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and (entry / "comm").read_text().strip() == "lockstepd" and \
                        os.path.samefile(entry / "root", self.root):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def stop_daemons(self):
        for pid in self.daemons():
            os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not self.daemons(), "the daemons' end")

    def close(self):
        self.stop_daemons()
        for mount in ("proc", "dev/null", "dev/zero", "dev/urandom"):
            subprocess.run(["umount", "-l", self.root / mount], check=True)


class EmptyChroot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        Bundle.make()
        cls.chroot = Chroot()

    @classmethod
    def tearDownClass(cls):
        cls.chroot.close()

    def in_chroot(self, *command, **kwargs):
        return self.chroot.run(*command, **kwargs)

    def assert_runs(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(re.findall(r"ld\.so|cannot be preloaded|version `", done.stderr), [])
        return done.stdout

    def test_programs_print_their_version(self):
        version = (ROOT / "VERSION").read_text().strip()
        for program in sorted(PROGRAMS):
            self.assertIn(version, self.assert_runs(self.in_chroot(program, "--version")))
            self.assertIn("--help", self.assert_runs(self.in_chroot(program, "--help")))
        self.assertIn("lockstep trace", self.assert_runs(self.in_chroot("lockstep", "--help")))

    def test_the_helper_hides_new_system_calls(self):
        source = Bundle.work / "probe.c"
        source.write_text("#define _GNU_SOURCE\n#include <errno.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n"
                          "int main(void) { return syscall(SYS_close_range, 900u, 900u, 0u) == -1 && errno == ENOSYS ? 0 : 1; }\n")
        subprocess.run(["gcc", "-static", "-o", self.chroot.root / "probe", source], check=True)
        self.assertEqual(self.in_chroot("/probe").returncode, 0)

    def test_run_sets_only_the_documented_variables(self):
        given = {"LD_LIBRARY_PATH": "/user/libs", "FIRST": "1", "LD_PRELOAD": "/user/no_such_library.so", "PATH": "/bin",
                 "EMPTY": "", "LD_AUDIT": "/user/no_such_auditor.so"}
        done = self.in_chroot("lockstep", "run", "--daemon", self.chroot.socket, "--", "/show_surroundings", "a b", "", env=given)
        self.assertEqual(done.returncode, 42, done.stderr)
        self.assertNotIn("cannot be preloaded", done.stderr)
        seen = {}
        for line in done.stdout.splitlines():
            kind, _, value = line.partition(" ")
            seen.setdefault(kind, []).append(value)
        self.assertEqual(seen["name"], ["show_surroundin"])
        self.assertEqual(seen["argument"], ["/show_surroundings", "a b", ""])
        self.assertEqual(seen["descriptor"], ["0", "1", "2"])
        variables = [v.partition("=")[::2] for v in seen["variable"]]
        # The user's variables come first, unchanged and in their order.
        self.assertEqual(variables[:len(given)], list(given.items()))
        added = dict(variables[len(given):])
        self.assertEqual(sorted(added), sorted(SET_BY_RUN))
        library = f"{self.chroot.prefix}/lib/liblockstep_client.so"
        self.assertEqual({name: value for name, value in added.items() if name.endswith(("_PATH", "_PLUGIN"))},
                         {name: library for name in SET_BY_RUN[:3]})
        self.assertEqual(added["LOCKSTEP_SOCKET"], self.chroot.socket)
        self.assertIn("daemon at " + self.chroot.socket, done.stderr)
        # The daemon's process has its own name and not that of the loader.
        # A process of `run` that started it may still end.
        wait_until(lambda: len(self.chroot.daemons()) == 1, "one daemon", lambda: str(self.chroot.daemons()))
        status = json.loads(self.assert_runs(self.in_chroot("lockstep", "status", "--format", "json")))
        self.assertEqual(len(status["daemons"]), 1)
        self.chroot.stop_daemons()

    def test_status_without_a_daemon_gives_the_remedy(self):
        done = self.in_chroot("lockstep", "status", env={"LOCKSTEP_SOCKET": "/tmp/nobody/client.sock"})
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("lockstep run", done.stderr)

    def test_doctor_finds_every_part(self):
        self.assertNotIn("broken", self.assert_runs(self.in_chroot("lockstep", "doctor")))

    def test_writes_every_format_with_its_own_libraries(self):
        shutil.copy(ROOT / "tests/golden/timeline/every_statement_v1.timeline", self.chroot.root / "tmp/job.timeline")
        for form in ("kineto", "perfetto", "scenario", "otf2", "csv", "parquet"):
            self.assert_runs(self.in_chroot("lockstep", "export", "/tmp/job.timeline", "--format", form, "-o", f"/tmp/export-{form}"))
        self.assertGreater((self.chroot.root / "tmp/export-otf2/traces.otf2").stat().st_size, 0)
        self.assertEqual((self.chroot.root / "tmp/export-parquet/kernels.parquet").read_bytes()[-4:], b"PAR1")

    def test_an_aggregator_opens_a_port_with_a_token(self):
        process = self.chroot.start("lockstep-aggregator", "--listen", "127.0.0.1:0", "--token-file", "/tmp/token", "--state-dir",
                                    "/tmp/state", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            self.assertRegex(process.stdout.readline(), r"listening on 127\.0\.0\.1:\d+")
            self.assertEqual(pathlib.Path(f"/proc/{process.pid}/comm").read_text().strip(), "lockstep-aggreg")
        finally:
            process.terminate()
            _, printed = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, printed)

    def test_captures_and_analyses_ranks_outside_the_bundle(self):
        starter = Bundle.folder / "bin"
        rank = [str(BIN / "lockstep-sim-rank"), "--forever", "--seed", "7", *RANK_ARGS, "--fault", "slow_gpu", "--fault-rank", "2",
                "--fault-size", "0.3"]
        daemon = self.chroot.start("lockstepd", "--socket", self.chroot.socket, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        outside = str(self.chroot.sockets / "client.sock")
        # The client also runs on the old kernel, in a process with the host's libc.
        job = LiveJob(starter, Bundle.work / "job", ranks=4, env={"LOCKSTEP_SOCKET": outside})
        job.command = [*job.command[:job.command.index(str(starter / "lockstep"))], str(self.chroot.root / "old_kernel"),
                       str(starter / "lockstep"), "run", "--", *rank]
        try:
            wait_until((self.chroot.sockets / "client.sock").exists, "the daemon's socket")
            with job:
                status = job.wait_for_ranks()
                self.assertEqual(sorted(r["rank"] for d in status["daemons"] for r in d["ranks"]), [0, 1, 2, 3])
                seen = self.assert_runs(self.in_chroot("lockstep", "status"))
                self.assertIn("ranks 0-3 of 4", seen)
                printed = self.assert_runs(self.in_chroot("lockstep", "trace", "--duration", "2s", "-o", "/tmp/capture"))
            self.assertIn("rank 2", printed.splitlines()[0])
            report = report_of(self.chroot.root / "tmp" / "capture")
            self.assertEqual(len(report["ranks"]), 4)
            self.assertEqual(report["capture"]["losses"], [])
            self.assertEqual(report["stragglers"][0]["ranks"], [2])
            self.assert_runs(self.in_chroot("lockstep", "report", "/tmp/capture"))
            self.assertEqual(len(list((self.chroot.root / "tmp/capture/traces").iterdir())), 4)
            imported = json.loads(self.assert_runs(self.in_chroot("lockstep", "analyze", "/tmp/capture/traces", "--format", "json")))
            for live, read in zip(report["ranks"], imported["ranks"]):
                self.assertEqual({k: live[k] for k in ("rank", "compute_ns", "communication_ns", "memory_ns")},
                                 {k: read[k] for k in ("rank", "compute_ns", "communication_ns", "memory_ns")})
            self.assert_runs(self.in_chroot("lockstep", "export", "/tmp/capture", "--format", "perfetto", "-o", "/tmp/all.pftrace"))
        finally:
            daemon.terminate()
            daemon.wait(60)

    def test_runs_under_another_name_a_link_and_a_folder_with_a_colon(self):
        links = Bundle.work / "links"
        links.mkdir()
        (links / "ls-status").symlink_to(Bundle.folder / "bin" / "lockstep")
        self.assertEqual(run(links / "ls-status", "--version").returncode, 0)
        self.assertEqual(run("./lockstep", "--version", cwd=Bundle.folder / "bin").returncode, 0)
        wrong = Bundle.work / "a:b"
        (wrong / "bin").mkdir(parents=True)
        shutil.copy(Bundle.folder / "bin" / "lockstep", wrong / "bin" / "lockstep")
        done = run(wrong / "bin" / "lockstep", "--version")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^lockstep: .*a:b.*move it\n$")


def tearDownModule():
    Bundle.remove()


if __name__ == "__main__":
    enter_namespace()
    if not os.environ[INSIDE]:
        print("this machine lets neither root nor a user mount in a namespace: what runs in an empty chroot was not tested")
        del EmptyChroot
    unittest.main(verbosity=2, argv=sys.argv[:1] + sys.argv[2:])
