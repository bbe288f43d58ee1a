"""Tests the Debian packages of this build. It checks their contents. It installs them, captures a job of
another user, and purges them, after which no file may be left.

dpkg installs them into a separate root: an overlay over this machine's files, so that all changes are in
one folder. The test uses its own namespaces for mounts and chroots, as root or as a user under `unshare
-Urm`."""
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from sandbox import Sandbox  # noqa: E402
from waiting import wait_until  # noqa: E402
from machine_root import USER, BootedMachine, Machine, output, run  # noqa: E402

INSIDE = "LOCKSTEP_TEST_IN_NAMESPACE"
ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.argv[1]).resolve()
VERSION = (ROOT / "VERSION").read_text().strip()
COMPONENTS = ("client", "daemon", "aggregator", "cli")
# The libc of Debian 10.
OLDEST_LIBC = (2, 28)

def enter_namespace():
    """Runs this script again in a namespace that permits an overlay mount and chroot. Without one, it leaves
    out the tests that need it."""
    if os.environ.get(INSIDE):
        return
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    probe = ("mount -t tmpfs none /mnt && mkdir /mnt/u /mnt/w /mnt/r && "
             "mount -t overlay -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w none /mnt/r && chroot /mnt/r true")
    # A pid namespace ends all processes of the test with it.
    processes = ["--pid", "--fork", "--kill-child", "--mount-proc"]
    for how in (["unshare", "-m", *processes], ["unshare", "-Urm", *processes]):
        if subprocess.run([*how, "sh", "-c", probe], capture_output=True).returncode == 0:
            os.environ[INSIDE] = " ".join(how)
            os.execvp(how[0], [*how, sys.executable, *sys.argv])
    os.environ[INSIDE] = ""


class Packages:
    """The packages, built once from the programs of this build."""
    work = None

    @classmethod
    def make(cls):
        if cls.work:
            return
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="lk-deb-"))
        # A distributor must set it. Without it, the maintainer is root of the build machine.
        os.environ["DEBEMAIL"] = "packages@example.org"
        output("bash", ROOT / "tools/dev/deb.sh", "--built", BIN.parent, "--level", "0", "-o", cls.work, cwd=ROOT)
        cls.files = {c: next(cls.work.glob(f"lockstep-{c}_{VERSION}-1_*.deb")) for c in COMPONENTS}

    @classmethod
    def copy_into(cls, folder):
        folder.mkdir()
        for file in cls.files.values():
            shutil.copy(file, folder)

    @classmethod
    def remove(cls):
        if cls.work:
            shutil.rmtree(cls.work, ignore_errors=True)


def contents(component):
    """Returns path -> (mode, owner), for files only."""
    found = {}
    for line in output("dpkg-deb", "-c", Packages.files[component]).splitlines():
        mode, owner, _, _, _, path = line.split(None, 5)
        if not mode.startswith("d"):
            found[path.removeprefix(".")] = (mode, owner)
    return found


def field(component, name):
    return output("dpkg-deb", "-f", Packages.files[component], name).strip()


class Contents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        Packages.make()
        cls.multiarch = output("dpkg-architecture", "-q", "DEB_HOST_MULTIARCH").strip()

    def test_files_have_debians_paths_and_belong_to_root(self):
        doc = [f"/usr/share/doc/lockstep-{{}}/{name}" for name in ("changelog.Debian.gz", "copyright")]
        expected = {
            "client": {f"/usr/lib/{self.multiarch}/lockstep/liblockstep_client.so", "/usr/include/lockstep.h"},
            "daemon": {"/usr/bin/lockstepd", "/etc/lockstep/lockstepd.conf", "/usr/lib/systemd/system/lockstepd.service",
                       "/usr/lib/systemd/system/lockstepd-broker.service",
                       "/usr/share/man/man8/lockstepd.8.gz"},
            "aggregator": {"/usr/bin/lockstep-aggregator", "/etc/lockstep/aggregator.conf",
                           "/usr/lib/systemd/system/lockstep-aggregator.service", "/usr/share/man/man8/lockstep-aggregator.8.gz"},
            "cli": {"/usr/bin/lockstep", "/usr/share/bash-completion/completions/lockstep", "/usr/share/zsh/vendor-completions/_lockstep",
                    "/usr/share/fish/vendor_completions.d/lockstep.fish", "/usr/share/man/man1/lockstep.1.gz"},
        }
        for component in COMPONENTS:
            found = contents(component)
            wanted = expected[component] | {path.format(component) for path in doc}
            self.assertLessEqual(wanted, set(found), component)
            more = {p for p in set(found) - wanted if not re.match(r"/usr/share/(man/man1/lockstep-[a-z]+\.1\.gz|doc/lockstep-cli/[\w-]+\.md)$", p)}
            self.assertEqual(more, set(), component)
            for path, (mode, owner) in found.items():
                self.assertEqual(owner, "root/root", path)
                self.assertEqual(mode, "-rwxr-xr-x" if path.startswith("/usr/bin/") else "-rw-r--r--", path)
        pages = [p for p in contents("cli") if "/man1/" in p]
        self.assertGreater(len(pages), 15, "a page for each command")

    def test_manual_pages_are_valid_and_equal_the_programs_output(self):
        with tempfile.TemporaryDirectory() as folder:
            for component in COMPONENTS:
                output("dpkg-deb", "-x", Packages.files[component], folder)
            pages = {p.name.removesuffix(".gz"): gzip.decompress(p.read_bytes()).decode() for p in pathlib.Path(folder).rglob("*.[18].gz")}
        for program in ("lockstepd", "lockstep-aggregator"):
            self.assertEqual(pages[f"{program}.8"], output(BIN / program, "--man-page"))
        for name, page in pages.items():
            if shutil.which("groff"):
                printed = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8"], input=page, text=True, capture_output=True)
                self.assertEqual((printed.returncode, printed.stderr), (0, ""), name)
            if shutil.which("mandoc"):
                printed = subprocess.run(["mandoc", "-Tlint", "-Wwarning"], input=page, text=True, capture_output=True)
                # The manual pages have no date, so that equal sources give equal packages.
                faults = [line for line in printed.stdout.splitlines() if "missing date" not in line]
                self.assertEqual(faults, [], name)

    @unittest.skipUnless(shutil.which("lintian"), "Debian: lintian")
    def test_lintian_finds_only_what_install_md_explains(self):
        printed = output("lintian", "--allow-root", "--tag-display-limit", "0", *Packages.files.values())
        tags = {match.group(1) for match in re.finditer(r"^[EW]: [\w-]+(?: \w+)?: ([\w-]+)", printed, flags=re.M)}
        page = (ROOT / "docs/install.md").read_text()
        explained = set(re.findall(r"^\| `([\w-]+)` \|", page[page.index("lintian"):], flags=re.M))
        self.assertEqual(tags, explained, printed)

    def test_upgrades_keep_configuration_and_examples_match_the_programs(self):
        for component, name, program in (("daemon", "lockstepd.conf", "lockstepd"), ("aggregator", "aggregator.conf", "lockstep-aggregator")):
            with tempfile.TemporaryDirectory() as folder:
                output("dpkg-deb", "-e", Packages.files[component], folder)
                self.assertEqual((pathlib.Path(folder) / "conffiles").read_text(), f"/etc/lockstep/{name}\n")
            self.assertEqual((ROOT / "deploy/config" / name).read_text(), output(BIN / program, "--example-config"),
                             f"{program} --example-config > deploy/config/{name}")

    def test_packages_declare_their_dependencies(self):
        self.assertRegex(field("client", "Depends"), r"^libc6 \(>= [\d.]+\)$")
        libc = tuple(map(int, re.search(r">= (\d+)\.(\d+)", field("client", "Depends")).groups()))
        self.assertLessEqual(libc, OLDEST_LIBC)
        for component in ("daemon", "aggregator", "cli"):
            for library in (r"libc6 \(>= ", r"libgrpc\+\+1", r"libprotobuf\d+", r"libstdc\+\+6 \(>= "):
                self.assertRegex(field(component, "Depends"), library)
        for component in ("daemon", "aggregator"):
            self.assertIn("adduser", field(component, "Depends"))
        self.assertEqual(field("cli", "Recommends"), "lockstep-client, lockstep-daemon")
        for component in COMPONENTS:
            self.assertEqual(field(component, "Version"), f"{VERSION}-1")
            self.assertGreater(int(field(component, "Installed-Size")), 20)
            self.assertGreater(len(field(component, "Description")), 200)

    def test_programs_are_stripped_and_have_no_library_path(self):
        with tempfile.TemporaryDirectory() as folder:
            for component in COMPONENTS:
                output("dpkg-deb", "-x", Packages.files[component], folder)
            binaries = [p for p in pathlib.Path(folder).rglob("*") if p.is_file() and p.read_bytes()[:4] == b"\x7fELF"]
            self.assertEqual(len(binaries), 4)
            for path in binaries:
                self.assertNotRegex(output("readelf", "-dW", path), r"\((RPATH|RUNPATH)\)", path)
                self.assertNotRegex(output("readelf", "-SW", path), r"\.(symtab|debug_)", path)


class Installed(unittest.TestCase):
    """The life of one installation. The numbers in the tests' names give their order."""

    @classmethod
    def setUpClass(cls):
        Packages.make()
        cls.machine = Machine(BIN.parent)
        cls.addClassCleanup(cls.machine.close)
        cls.accounts = cls.machine.accounts()
        if "lockstep-" in cls.machine.must("dpkg-query", "-W", "-f", "${Package}\n"):
            raise unittest.SkipTest("this machine has the packages of Lockstep installed already")
        Packages.copy_into(cls.machine.root / "run/debs")
        cls.debs = [f"/run/debs/{file.name}" for file in Packages.files.values()]

    def test_1_packages_install_completely(self):
        self.machine.must("dpkg", "--install", *self.debs)
        names = [f"lockstep-{c}" for c in COMPONENTS]
        self.assertEqual(self.machine.must("dpkg-query", "-W", "-f", "${db:Status-Status}\n", *names), "installed\n" * 4)
        # An image may leave out documents (dpkg's path-exclude).
        wrong = [line for line in self.machine.run("dpkg", "--verify", *names).stdout.splitlines() if "/usr/share/" not in line]
        self.assertEqual(wrong, [])
        for user in ("lockstepd", "lockstep"):
            self.assertIn("/usr/sbin/nologin", self.machine.must("getent", "passwd", user))
        self.assertEqual(self.machine.running(), [], "without systemd nothing is started")
        self.assertTrue((self.machine.root / "etc/systemd/system/multi-user.target.wants/lockstepd.service").is_symlink())
        self.assertFalse((self.machine.root / "etc/systemd/system/multi-user.target.wants/lockstep-aggregator.service").is_symlink(),
                         "it needs a listen address in its settings first")

    def test_2_installed_programs_check_their_settings(self):
        done = self.machine.run("lockstep", "config", "check", "/etc/lockstep/lockstepd.conf")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^socket +/run/lockstep/client\.sock +default$")
        done = self.machine.run("lockstep", "config", "check")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--listen is required: give the flag, or write it into /etc/lockstep/aggregator.conf", done.stderr)
        wrong = self.machine.root / "tmp/lockstepd-wrong.conf"
        wrong.write_text("ring-byts = 8 MiB\nkineto = maybe\n")
        done = self.machine.run("lockstep", "config", "check", "/tmp/lockstepd-wrong.conf")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/tmp/lockstepd-wrong.conf:1: unknown key ring-byts; did you mean ring-bytes?", done.stderr)
        self.assertIn("/tmp/lockstepd-wrong.conf:2: --kineto", done.stderr)
        wrong.unlink()
        conf = self.machine.root / "etc/lockstep/aggregator.conf"
        conf.write_text(conf.read_text() + "listen = 127.0.0.1:0\ntoken-file = /var/lib/lockstep/token\n")
        done = self.machine.run("lockstep", "config", "check", env={"LOCKSTEPD_RING_BYTES": "16 MiB"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^ring-bytes +16 MiB +LOCKSTEPD_RING_BYTES$")
        self.assertRegex(done.stdout, r"(?m)^listen +127\.0\.0\.1:0 +/etc/lockstep/aggregator\.conf:\d+$")

    def test_3_the_systems_daemon_captures_a_users_job(self):
        broker = self.machine.start_service("lockstepd-broker.service")
        daemon = self.machine.start_service("lockstepd.service", user="lockstepd")
        user = self.machine.as_user(None)
        rank = ["/run/built/bin/lockstep-sim-rank", "--forever", "--seed", "7", "--time-scale", "4", "--microbatches", "2", "--fault", "slow_gpu", "--fault-rank", "1",
                "--fault-size", "0.3"]
        job = self.machine.start(*user, "mpiexec", "--oversubscribe", "--bind-to", "none", "-n", "2", "lockstep", "run", "--", *rank)

        def ranks():
            done = self.machine.run(*user, "lockstep", "status", "--format", "json")
            return sorted(r["rank"] for d in json.loads(done.stdout)["daemons"] for r in d["ranks"]) if done.returncode == 0 else []

        wait_until(lambda: ranks() == [0, 1], "both ranks", lambda: job.output.read_text() + daemon.output.read_text())
        self.assertIn("daemon at /run/lockstep/client.sock", job.output.read_text())
        done = self.machine.run(*user, "lockstep", "trace", "--duration", "2s", "-o", "/tmp/capture")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = json.loads((self.machine.root / "tmp/capture/report.json").read_text())
        self.assertEqual([r["rank"] for r in report["ranks"]], [0, 1])
        self.assertEqual(report["capture"]["losses"], [])
        if user:
            self.assertEqual((self.machine.root / "tmp/capture/report.json").stat().st_uid, USER)
        library = pathlib.Path(f"/proc/{self.pid_of_a_rank()}/maps").read_text()
        self.assertRegex(library, r"/usr/lib/[\w-]+/lockstep/liblockstep_client\.so")
        job.terminate()
        job.wait(60)
        daemon.terminate()
        self.assertEqual(daemon.wait(60), 0, daemon.output.read_text())
        broker.terminate()
        self.assertEqual(broker.wait(60), 0, broker.output.read_text())
        self.assertEqual(list((self.machine.root / "run/lockstep").glob("*.sock")), [], "the broker removes the sockets")

    def pid_of_a_rank(self):
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and (entry / "comm").read_text() == "lockstep-sim-ra\n" and os.path.samefile(entry / "root", self.machine.root):
                    return entry.name
            except OSError:
                continue
        raise AssertionError("no rank runs")

    def test_4_the_aggregator_runs_as_its_own_user(self):
        process = self.machine.start_service("lockstep-aggregator.service", user="lockstep")
        self.assertRegex(process.output.read_text(), r"listening on 127\.0\.0\.1:\d+")
        state = self.machine.root / "var/lib/lockstep"
        self.assertEqual(state.stat().st_mode & 0o777, 0o700)
        self.assertEqual((state / "token").stat().st_mode & 0o777, 0o600)
        if self.machine.whole_root:
            self.assertNotEqual(state.stat().st_uid, 0)
            self.assertEqual(pathlib.Path(f"/proc/{process.pid}").stat().st_uid, state.stat().st_uid)
        process.terminate()
        self.assertEqual(process.wait(60), 0, process.output.read_text())

    def test_5_a_reinstallation_keeps_the_settings(self):
        before = (self.machine.root / "etc/lockstep/aggregator.conf").read_text()
        self.machine.must("dpkg", "--install", "--force-confold", *self.debs)
        self.assertEqual((self.machine.root / "etc/lockstep/aggregator.conf").read_text(), before)
        self.assertTrue((self.machine.root / "var/lib/lockstep/token").exists())

    def test_6_removal_leaves_no_files(self):
        names = [f"lockstep-{c}" for c in COMPONENTS]
        self.machine.must("dpkg", "--remove", *names)
        self.assertEqual({p.name for p in (self.machine.root / "etc/lockstep").iterdir()}, {"lockstepd.conf", "aggregator.conf"})
        self.assertTrue((self.machine.root / "var/lib/lockstep/token").exists(), "removed is not purged")
        self.assertFalse((self.machine.root / "usr/bin/lockstepd").exists())
        self.machine.must("dpkg", "--purge", *names)
        self.assertEqual(self.machine.changes(), set())
        self.assertEqual(self.machine.accounts(), self.accounts)
        self.assertEqual(self.machine.running(), [])


class UnderSystemd(unittest.TestCase):
    """Runs the units under systemd with all their restrictions."""

    @classmethod
    def setUpClass(cls):
        Packages.make()
        cls.machine = BootedMachine(BIN.parent)
        cls.addClassCleanup(cls.machine.close)
        if not cls.machine.whole_root or not cls.machine.boot():
            print("systemd does not run in a namespace here: the units were not started by it\n" + cls.machine.boot_log())
            raise unittest.SkipTest("systemd does not run in a namespace here")

    def state(self, unit):
        return self.machine.run("systemctl", "is-active", unit).stdout.strip()

    def journal(self, unit):
        return self.machine.run("journalctl", "--no-pager", "-o", "cat", "-u", unit).stdout

    def ranks(self):
        done = self.machine.run(*self.machine.as_user(None), "lockstep", "status", "--format", "json")
        return sorted(r["rank"] for d in json.loads(done.stdout)["daemons"] for r in d["ranks"]) if done.returncode == 0 else []

    def show(self, unit, name):
        return self.machine.must("systemctl", "show", "--value", "-p", name, unit).strip()

    def check_watchdog(self, unit):
        """A program that stands still is killed and started again."""
        folder = f"/etc/systemd/system/{unit}.service.d"
        self.machine.must("sh", "-c", f"mkdir -p {folder} && printf '[Service]\nWatchdogSec=2s\nTimeoutAbortSec=1s\nRestartSec=100ms\n' > {folder}/quick.conf")
        self.machine.must("systemctl", "daemon-reload")
        # A daemon starts and stops with its broker.
        self.machine.must("systemctl", "restart", unit.removesuffix("-broker"))
        pid = self.show(unit, "MainPID")
        for _ in range(2):
            reported = self.show(unit, "WatchdogTimestampMonotonic")
            wait_until(lambda: self.show(unit, "WatchdogTimestampMonotonic") != reported, "a report to the watchdog", lambda: self.journal(unit))
        self.assertEqual(self.show(unit, "MainPID"), pid, self.journal(unit))
        self.machine.must("systemctl", "kill", "--signal", "STOP", unit)
        wait_until(lambda: self.state(unit) == "active" and self.show(unit, "MainPID") not in (pid, "0"), "a restart", lambda: self.journal(unit))
        self.assertIn("Watchdog timeout", self.journal(unit))
        self.machine.must("sh", "-c", f"rm -r {folder} && systemctl daemon-reload")

    def test_the_service_starts_restarts_and_stops(self):
        machine = self.machine
        Packages.copy_into(machine.root / "var/tmp/debs")
        machine.must("sh", "-c", "dpkg --install /var/tmp/debs/*.deb")
        self.assertEqual((self.state("lockstepd"), self.state("lockstep-aggregator")), ("active", "inactive"), self.journal("lockstepd"))

        # A user's job, and a capture with its socket in a folder that only the user may enter.
        user = machine.as_user(None)
        rank = ["/run/built/bin/lockstep-sim-rank", "--forever", "--seed", "7", "--time-scale", "4"]
        job = machine.start(*user, "mpiexec", "--oversubscribe", "--bind-to", "none", "-n", "2", "lockstep", "run", "--", *rank)
        wait_until(lambda: self.ranks() == [0, 1], "both ranks", lambda: job.output.read_text() + self.journal("lockstepd"))
        machine.must(*user, "mkdir", "-m", "700", "/tmp/own")
        done = machine.run(*user, "lockstep", "trace", "--duration", "1s", "-o", "/tmp/own/capture", env={"TMPDIR": "/tmp/own"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

        rights = machine.must("sh", "-c", "cat /proc/$(systemctl show --value -p MainPID lockstepd)/status")
        self.assertRegex(rights, r"(?m)^CapBnd:\t0+$")
        self.assertNotRegex(rights, r"(?m)^Uid:\t0\b")

        # The daemon crashes and restarts, and its ranks return.
        machine.must("systemctl", "kill", "--signal", "SEGV", "lockstepd")
        wait_until(lambda: self.journal("lockstepd").count(" listening ") == 2 and self.ranks() == [0, 1], "the ranks' return",
                   lambda: self.journal("lockstepd"))

        # Daemon and aggregator on one machine with one token, as in docs/install.md.
        machine.must("sh", "-c", "printf 'listen = 127.0.0.1:7077\ntoken-file = /var/lib/lockstep/token\n' >> /etc/lockstep/aggregator.conf")
        machine.must("systemctl", "enable", "--now", "lockstep-aggregator")
        machine.must("install", "-m", "600", "/var/lib/lockstep/token", "/etc/lockstep/token")
        machine.must("sh", "-c", "printf 'aggregator = 127.0.0.1:7077\ntoken-file = /etc/lockstep/token\n' >> /etc/lockstep/lockstepd.conf")
        machine.must("lockstep", "config", "check")
        machine.must("systemctl", "restart", "lockstepd")
        remote = ["--aggregator", "127.0.0.1:7077", "--token-file", "/etc/lockstep/token"]
        wait_until(lambda: "ranks 0, 1 of 2" in machine.run("lockstep", "status", *remote).stdout, "the aggregator's view",
                   lambda: machine.run("lockstep", "status", *remote).stdout + self.journal("lockstep-aggregator"))
        machine.must("lockstep", "trace", *remote, "--duration", "1s", "-o", "/var/tmp/capture")
        self.assertEqual(len(machine.must("ls", "/var/lib/lockstep/captures").split()), 1)

        for unit in ("lockstepd", "lockstepd-broker", "lockstep-aggregator"):
            self.check_watchdog(unit)
        wait_until(lambda: self.state("lockstepd") == "active" and self.ranks() == [0, 1], "the ranks' return after the broker's",
                   lambda: self.journal("lockstepd"))

        # A mistake in the settings is reported once, and systemd does not restart the daemon.
        machine.must("sh", "-c", "echo 'ring-byts = 8 MiB' >> /etc/lockstep/lockstepd.conf")
        self.assertNotEqual(machine.run("systemctl", "restart", "lockstepd").returncode, 0)
        self.assertEqual(self.state("lockstepd"), "failed")
        self.assertIn("unknown key ring-byts; did you mean ring-bytes?", self.journal("lockstepd"))
        machine.must("sed", "-i", "/ring-byts/d", "/etc/lockstep/lockstepd.conf")
        machine.must("systemctl", "restart", "lockstepd")

        machine.must("sh", "-c", "dpkg --purge lockstep-client lockstep-daemon lockstep-aggregator lockstep-cli")
        self.assertEqual(machine.run("pgrep", "-x", "lockstepd|lockstep-broker|lockstep-aggreg").stdout, "")
        for path in ("/run/lockstep", "/var/lib/lockstep", "/etc/lockstep/lockstepd.conf", "/usr/bin/lockstepd"):
            self.assertNotEqual(machine.run("test", "-e", path).returncode, 0, path)
        for user in ("lockstepd", "lockstep"):
            self.assertNotEqual(machine.run("getent", "passwd", user).returncode, 0)
        # Files of the administrator stay.
        self.assertEqual(machine.must("ls", "/etc/lockstep"), "token\n")
        self.assertIsNone(job.poll(), "the job runs on")


class MinimalContainer(unittest.TestCase):
    """A container needs only the client's package, libc's own libraries, the program and its libraries."""

    def test_captures_a_rank_in_the_image(self):
        Packages.make()
        sandbox = Sandbox(BIN)
        self.addCleanup(sandbox.close)
        root = sandbox.folder / "minimal"
        output("dpkg-deb", "-x", Packages.files["client"], root)
        client = next(root.rglob("liblockstep_client.so"))
        program = sandbox.bin / "lockstep_train_loop"
        for folder in ("proc", "tmp", "dev/shm", "run/lockstep", "app"):
            (root / folder).mkdir(parents=True)
        shutil.copy(program, root / "app")
        for library in sandbox.stack.iterdir():
            shutil.copy(library, root / "app")
        # The root gets only those files of the machine that the loader needs.
        asked = set()
        for binary in [program, *sandbox.stack.iterdir(), client]:
            asked |= set(re.findall(r"(/[^ ]+) \(0x", output("ldd", binary, env={"LD_LIBRARY_PATH": str(sandbox.stack), "PATH": os.environ["PATH"]})))
        for library in sorted(p for p in asked if not p.startswith(str(sandbox.stack))):
            target = root / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
        print(f"minimal root: {sum(1 for p in root.rglob('*') if p.is_file())} files")
        for source, at in (("/proc", "proc"), (sandbox.sockets, "run/lockstep"), ("/dev/shm", "dev/shm")):
            output("mount", "--rbind", source, root / at)
            sandbox.mounts.append(root / at)
        (root / "dev/null").touch()
        output("mount", "--bind", "/dev/null", root / "dev/null")
        sandbox.mounts.append(root / "dev/null")

        sandbox.start_daemon()
        inside = "/" + client.relative_to(root).as_posix()
        env = {"LD_LIBRARY_PATH": "/app", "SIMGPU_KERNELS": "*matmul*=20ms", "LOCKSTEP_SOCKET": "/run/lockstep/client.sock", "RANK": "0",
               "WORLD_SIZE": "1", **dict.fromkeys(("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN"), inside)}
        job = sandbox.start(["unshare", "--mount", "--root", root, "--wd", "/", "--", "/app/lockstep_train_loop", "--id-file", "/tmp/id",
                          "--steps", "0"], whole_env=env)
        rank = sandbox.wait_for_ranks()[0]
        self.assertEqual(rank["pid"], job.pid)
        done = sandbox.run("trace", "--duration", "1s", "-o", sandbox.folder / "capture")
        self.assertIn(done.returncode, (0, 7), done.stdout + done.stderr)
        report = json.loads((sandbox.folder / "capture/report.json").read_text())
        self.assertEqual([r["rank"] for r in report["ranks"]], [0])
        self.assertGreater(report["ranks"][0]["compute_ns"], 0)


def tearDownModule():
    Packages.remove()


if __name__ == "__main__":
    enter_namespace()
    if not os.environ[INSIDE]:
        print("this machine lets neither root nor a user mount an overlay in a namespace: no package was installed")
        del Installed, MinimalContainer, UnderSystemd
    unittest.main(verbosity=2, argv=sys.argv[:1] + sys.argv[2:])
