"""The Debian packages of the build at hand: what is in them, and that they install, serve a job of another user, and go without
leaving anything.

They are installed with dpkg into a root of its own: this machine's files seen through an overlay, so that what changed lies apart and
can be looked at. Mounts and chroots in namespaces of its own, as root or as a user under `unshare -Urm`."""
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
from launch_room import Room  # noqa: E402
from waiting import wait_until  # noqa: E402
from machine_root import USER, BootedMachine, Machine, output, run  # noqa: E402

INSIDE = "LOCKSTEP_TEST_IN_NAMESPACE"
ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.argv[1]).resolve()
VERSION = (ROOT / "VERSION").read_text().strip()
COMPONENTS = ("client", "daemon", "aggregator", "cli")
# Debian 10's.
OLDEST_LIBC = (2, 28)

def enter_namespace():
    """Runs this script again where it may mount an overlay and chroot. Where it may not, the tests that need it say so."""
    if os.environ.get(INSIDE):
        return
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    probe = ("mount -t tmpfs none /mnt && mkdir /mnt/u /mnt/w /mnt/r && "
             "mount -t overlay -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w none /mnt/r && chroot /mnt/r true")
    # With processes of their own, none of which outlives the test.
    processes = ["--pid", "--fork", "--kill-child", "--mount-proc"]
    for how in (["unshare", "-m", *processes], ["unshare", "-Urm", *processes]):
        if subprocess.run([*how, "sh", "-c", probe], capture_output=True).returncode == 0:
            os.environ[INSIDE] = " ".join(how)
            os.execvp(how[0], [*how, sys.executable, *sys.argv])
    os.environ[INSIDE] = ""


class Packages:
    """Made once, out of the programs of this build."""
    work = None

    @classmethod
    def make(cls):
        if cls.work:
            return
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="lk-deb-"))
        # As whoever hands packages on has to; without it the maintainer is root of the machine that builds.
        os.environ["DEBEMAIL"] = "packages@example.org"
        output("bash", ROOT / "tools/dev/deb.sh", "--built", BIN.parent, "-o", cls.work, cwd=ROOT)
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
    """Path -> (mode, owner), of files only."""
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

    def test_each_file_is_where_debian_has_it_and_belongs_to_root(self):
        doc = [f"/usr/share/doc/lockstep-{{}}/{name}" for name in ("changelog.Debian.gz", "copyright")]
        expected = {
            "client": {f"/usr/lib/{self.multiarch}/lockstep/liblockstep_client.so", "/usr/include/lockstep.h"},
            "daemon": {"/usr/bin/lockstepd", "/etc/lockstep/lockstepd.conf", "/usr/lib/systemd/system/lockstepd.service",
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

    def test_manual_pages_are_valid_and_those_of_the_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            for component in COMPONENTS:
                output("dpkg-deb", "-x", Packages.files[component], folder)
            pages = {p.name.removesuffix(".gz"): gzip.decompress(p.read_bytes()).decode() for p in pathlib.Path(folder).rglob("*.[18].gz")}
        for program in ("lockstepd", "lockstep-aggregator"):
            self.assertEqual(pages[f"{program}.8"], output(BIN / program, "--man-page"))
        for name, page in pages.items():
            if shutil.which("groff"):
                said = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8"], input=page, text=True, capture_output=True)
                self.assertEqual((said.returncode, said.stderr), (0, ""), name)
            if shutil.which("mandoc"):
                said = subprocess.run(["mandoc", "-Tlint", "-Wwarning"], input=page, text=True, capture_output=True)
                # No date: a page is made by every build, and the same sources make the same package.
                faults = [line for line in said.stdout.splitlines() if "missing date" not in line]
                self.assertEqual(faults, [], name)

    @unittest.skipUnless(shutil.which("lintian"), "Debian: lintian")
    def test_lintian_finds_what_install_md_explains_and_no_more(self):
        said = output("lintian", "--allow-root", "--tag-display-limit", "0", *Packages.files.values())
        tags = {match.group(1) for match in re.finditer(r"^[EW]: [\w-]+(?: \w+)?: ([\w-]+)", said, flags=re.M)}
        page = (ROOT / "docs/install.md").read_text()
        explained = set(re.findall(r"^\| `([\w-]+)` \|", page[page.index("lintian"):], flags=re.M))
        self.assertEqual(tags, explained, said)

    def test_configuration_is_kept_over_upgrades_and_says_what_the_program_says(self):
        for component, name, program in (("daemon", "lockstepd.conf", "lockstepd"), ("aggregator", "aggregator.conf", "lockstep-aggregator")):
            with tempfile.TemporaryDirectory() as folder:
                output("dpkg-deb", "-e", Packages.files[component], folder)
                self.assertEqual((pathlib.Path(folder) / "conffiles").read_text(), f"/etc/lockstep/{name}\n")
            self.assertEqual((ROOT / "deploy/config" / name).read_text(), output(BIN / program, "--example-config"),
                             f"{program} --example-config > deploy/config/{name}")

    def test_each_names_what_it_needs(self):
        self.assertRegex(field("client", "Depends"), r"^libc6 \(>= [\d.]+\)$")
        libc = tuple(map(int, re.search(r">= (\d+)\.(\d+)", field("client", "Depends")).groups()))
        self.assertLessEqual(libc, OLDEST_LIBC)
        for component in ("daemon", "aggregator", "cli"):
            for library in (r"libc6 \(>= ", r"libgrpc\+\+1", r"libprotobuf\d+", r"libstdc\+\+6 \(>= "):
                self.assertRegex(field(component, "Depends"), library)
        self.assertIn("adduser", field("aggregator", "Depends"))
        self.assertEqual(field("cli", "Recommends"), "lockstep-client, lockstep-daemon")
        for component in COMPONENTS:
            self.assertEqual(field(component, "Version"), f"{VERSION}-1")
            self.assertGreater(int(field(component, "Installed-Size")), 20)
            self.assertGreater(len(field(component, "Description")), 200)

    def test_programs_are_stripped_and_name_no_folder_of_libraries(self):
        with tempfile.TemporaryDirectory() as folder:
            for component in COMPONENTS:
                output("dpkg-deb", "-x", Packages.files[component], folder)
            binaries = [p for p in pathlib.Path(folder).rglob("*") if p.is_file() and p.read_bytes()[:4] == b"\x7fELF"]
            self.assertEqual(len(binaries), 4)
            for path in binaries:
                self.assertNotRegex(output("readelf", "-dW", path), r"\((RPATH|RUNPATH)\)", path)
                self.assertNotRegex(output("readelf", "-SW", path), r"\.(symtab|debug_)", path)


class Units(unittest.TestCase):
    """systemd's own opinion of the units, where it can be asked."""
    # Of 10; what each needs and what therefore stays open is said in the unit.
    MOST_EXPOSED = {"lockstepd": 3.0, "lockstep-aggregator": 1.2}

    @classmethod
    def setUpClass(cls):
        Packages.make()
        if not shutil.which("systemd-analyze"):
            raise unittest.SkipTest("there is no systemd-analyze")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lk-units-"))
        for component in ("daemon", "aggregator"):
            output("dpkg-deb", "-x", Packages.files[component], cls.folder)
        cls.units = cls.folder / "usr/lib/systemd/system"

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def test_they_have_no_mistakes(self):
        for unit in sorted(self.units.iterdir()):
            # Where nothing is installed it misses the program itself.
            text = unit.read_text().replace("ExecStart=/usr", f"ExecStart={self.folder}/usr")
            checked = self.folder / unit.name
            checked.write_text(text)
            done = run("systemd-analyze", "verify", "--man=no", checked)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""), unit.name)

    def test_they_leave_little_open(self):
        for name, most in self.MOST_EXPOSED.items():
            done = run("systemd-analyze", "security", "--no-pager", "--offline=true", self.units / f"{name}.service")
            level = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
            self.assertIsNotNone(level, done.stdout + done.stderr)
            print(f"{name}.service: exposure {level[1]} of 10")
            self.assertLessEqual(float(level[1]), most)


class Installed(unittest.TestCase):
    """One life of an installation, in order: the tests' names begin with their place."""

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

    def test_1_they_install_and_what_is_there_is_whole(self):
        self.machine.must("dpkg", "--install", *self.debs)
        names = [f"lockstep-{c}" for c in COMPONENTS]
        self.assertEqual(self.machine.must("dpkg-query", "-W", "-f", "${db:Status-Status}\n", *names), "installed\n" * 4)
        # An image may be told to leave documents out (dpkg's path-exclude).
        wrong = [line for line in self.machine.run("dpkg", "--verify", *names).stdout.splitlines() if "/usr/share/" not in line]
        self.assertEqual(wrong, [])
        self.assertIn("/usr/sbin/nologin", self.machine.must("getent", "passwd", "lockstep"))
        self.assertEqual(self.machine.running(), [], "without systemd nothing is started")
        self.assertTrue((self.machine.root / "etc/systemd/system/multi-user.target.wants/lockstepd.service").is_symlink())
        self.assertFalse((self.machine.root / "etc/systemd/system/multi-user.target.wants/lockstep-aggregator.service").is_symlink(),
                         "it has to be told first where it listens")

    def test_2_the_settings_are_checked_by_the_installed_programs(self):
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
        self.assertIn("/tmp/lockstepd-wrong.conf:1: there is no key ring-byts; did you mean ring-bytes?", done.stderr)
        self.assertIn("/tmp/lockstepd-wrong.conf:2: --kineto", done.stderr)
        wrong.unlink()
        conf = self.machine.root / "etc/lockstep/aggregator.conf"
        conf.write_text(conf.read_text() + "listen = 127.0.0.1:0\ntoken-file = /var/lib/lockstep/token\n")
        done = self.machine.run("lockstep", "config", "check", env={"LOCKSTEPD_RING_BYTES": "16 MiB"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^ring-bytes +16 MiB +LOCKSTEPD_RING_BYTES$")
        self.assertRegex(done.stdout, r"(?m)^listen +127\.0\.0\.1:0 +/etc/lockstep/aggregator\.conf:\d+$")

    def test_3_a_users_job_is_captured_by_the_systems_daemon(self):
        daemon = self.machine.start_service("lockstepd.service")
        user = self.machine.as_user(None)
        rank = ["/run/built/bin/lockstep-sim-rank", "--forever", "--seed", "7", "--fault", "slow_gpu", "--fault-rank", "1", "--fault-size", "0.3"]
        job = self.machine.start(*user, "mpiexec", "--oversubscribe", "--bind-to", "none", "-n", "2", "lockstep", "run", "--", *rank)

        def ranks():
            done = self.machine.run(*user, "lockstep", "status", "--format", "json")
            return sorted(r["rank"] for d in json.loads(done.stdout)["daemons"] for r in d["ranks"]) if done.returncode == 0 else []

        wait_until(lambda: ranks() == [0, 1], "both ranks", lambda: job.said.read_text() + daemon.said.read_text(), 60)
        self.assertIn("daemon at /run/lockstep/client.sock", job.said.read_text())
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
        job.wait(20)
        daemon.terminate()
        self.assertEqual(daemon.wait(20), 0, daemon.said.read_text())

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
        self.assertRegex(process.said.read_text(), r"listening on 127\.0\.0\.1:\d+")
        state = self.machine.root / "var/lib/lockstep"
        self.assertEqual(state.stat().st_mode & 0o777, 0o700)
        self.assertEqual((state / "token").stat().st_mode & 0o777, 0o600)
        if self.machine.whole_root:
            self.assertNotEqual(state.stat().st_uid, 0)
            self.assertEqual(pathlib.Path(f"/proc/{process.pid}").stat().st_uid, state.stat().st_uid)
        process.terminate()
        self.assertEqual(process.wait(20), 0, process.said.read_text())

    def test_5_an_installation_over_itself_keeps_what_was_set(self):
        before = (self.machine.root / "etc/lockstep/aggregator.conf").read_text()
        self.machine.must("dpkg", "--install", "--force-confold", *self.debs)
        self.assertEqual((self.machine.root / "etc/lockstep/aggregator.conf").read_text(), before)
        self.assertTrue((self.machine.root / "var/lib/lockstep/token").exists())

    def test_6_they_go_and_leave_nothing(self):
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
    """The units as systemd runs them, with all that they take away from the programs."""

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

    def test_it_starts_serves_comes_back_and_goes(self):
        machine = self.machine
        Packages.copy_into(machine.root / "var/tmp/debs")
        machine.must("sh", "-c", "dpkg --install /var/tmp/debs/*.deb")
        self.assertEqual((self.state("lockstepd"), self.state("lockstep-aggregator")), ("active", "inactive"), self.journal("lockstepd"))

        # A user's job, and a trace whose socket lies where only that user may go.
        user = machine.as_user(None)
        rank = ["/run/built/bin/lockstep-sim-rank", "--forever", "--seed", "7"]
        job = machine.start(*user, "mpiexec", "--oversubscribe", "--bind-to", "none", "-n", "2", "lockstep", "run", "--", *rank)
        wait_until(lambda: self.ranks() == [0, 1], "both ranks", lambda: job.said.read_text() + self.journal("lockstepd"), 60)
        machine.must(*user, "mkdir", "-m", "700", "/tmp/own")
        done = machine.run(*user, "lockstep", "trace", "--duration", "1s", "-o", "/tmp/own/capture", env={"TMPDIR": "/tmp/own"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

        # It dies and comes back, and its ranks with it.
        machine.must("systemctl", "kill", "--signal", "SEGV", "lockstepd")
        wait_until(lambda: self.journal("lockstepd").count(" listening ") == 2 and self.ranks() == [0, 1], "the ranks' return",
                   lambda: self.journal("lockstepd"), 30)

        # Both ends of a cluster, with one token, as docs/install.md has it.
        machine.must("sh", "-c", "printf 'listen = 127.0.0.1:7077\ntoken-file = /var/lib/lockstep/token\n' >> /etc/lockstep/aggregator.conf")
        machine.must("systemctl", "enable", "--now", "lockstep-aggregator")
        machine.must("install", "-m", "600", "/var/lib/lockstep/token", "/etc/lockstep/token")
        machine.must("sh", "-c", "printf 'aggregator = 127.0.0.1:7077\ntoken-file = /etc/lockstep/token\n' >> /etc/lockstep/lockstepd.conf")
        machine.must("lockstep", "config", "check")
        machine.must("systemctl", "restart", "lockstepd")
        remote = ["--aggregator", "127.0.0.1:7077", "--token-file", "/etc/lockstep/token"]
        wait_until(lambda: "ranks 0, 1 of 2" in machine.run("lockstep", "status", *remote).stdout, "the aggregator's view",
                   lambda: machine.run("lockstep", "status", *remote).stdout + self.journal("lockstep-aggregator"), 30)
        machine.must("lockstep", "trace", *remote, "--duration", "1s", "-o", "/var/tmp/capture")
        self.assertEqual(len(machine.must("ls", "/var/lib/lockstep/captures").split()), 1)

        # A mistake in the settings is told, and not tried again and again.
        machine.must("sh", "-c", "echo 'ring-byts = 8 MiB' >> /etc/lockstep/lockstepd.conf")
        self.assertNotEqual(machine.run("systemctl", "restart", "lockstepd").returncode, 0)
        self.assertEqual(self.state("lockstepd"), "failed")
        self.assertIn("there is no key ring-byts; did you mean ring-bytes?", self.journal("lockstepd"))
        machine.must("sed", "-i", "/ring-byts/d", "/etc/lockstep/lockstepd.conf")
        machine.must("systemctl", "restart", "lockstepd")

        machine.must("sh", "-c", "dpkg --purge lockstep-client lockstep-daemon lockstep-aggregator lockstep-cli")
        self.assertEqual(machine.run("pgrep", "-x", "lockstepd|lockstep-aggreg").stdout, "")
        for path in ("/run/lockstep", "/var/lib/lockstep", "/etc/lockstep/lockstepd.conf", "/usr/bin/lockstepd"):
            self.assertNotEqual(machine.run("test", "-e", path).returncode, 0, path)
        self.assertNotEqual(machine.run("getent", "passwd", "lockstep").returncode, 0)
        # What an administrator has put there is theirs.
        self.assertEqual(machine.must("ls", "/etc/lockstep"), "token\n")
        self.assertIsNone(job.poll(), "the job runs on")


class MinimalContainer(unittest.TestCase):
    """The package of the client is all that a container needs: libc's own libraries, the program and what the program links."""

    def test_a_rank_in_it_is_captured(self):
        Packages.make()
        room = Room(BIN)
        self.addCleanup(room.close)
        root = room.folder / "minimal"
        output("dpkg-deb", "-x", Packages.files["client"], root)
        client = next(root.rglob("liblockstep_client.so"))
        program = room.bin / "lockstep_train_loop"
        for folder in ("proc", "tmp", "dev/shm", "run/lockstep", "app"):
            (root / folder).mkdir(parents=True)
        shutil.copy(program, root / "app")
        for library in room.stack.iterdir():
            shutil.copy(library, root / "app")
        # Of the machine nothing but what the loader asks for.
        asked = set()
        for binary in [program, *room.stack.iterdir(), client]:
            asked |= set(re.findall(r"(/[^ ]+) \(0x", output("ldd", binary, env={"LD_LIBRARY_PATH": str(room.stack), "PATH": os.environ["PATH"]})))
        for library in sorted(p for p in asked if not p.startswith(str(room.stack))):
            target = root / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
        print(f"minimal root: {sum(1 for p in root.rglob('*') if p.is_file())} files")
        for source, at in (("/proc", "proc"), (room.sockets, "run/lockstep"), ("/dev/shm", "dev/shm")):
            output("mount", "--rbind", source, root / at)
            room.mounts.append(root / at)
        (root / "dev/null").touch()
        output("mount", "--bind", "/dev/null", root / "dev/null")
        room.mounts.append(root / "dev/null")

        room.start_daemon()
        inside = "/" + client.relative_to(root).as_posix()
        env = {"LD_LIBRARY_PATH": "/app", "SIMGPU_KERNELS": "*matmul*=20ms", "LOCKSTEP_SOCKET": "/run/lockstep/client.sock", "RANK": "0",
               "WORLD_SIZE": "1", **dict.fromkeys(("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN"), inside)}
        job = room.start(["unshare", "--mount", "--root", root, "--wd", "/", "--", "/app/lockstep_train_loop", "--id-file", "/tmp/id",
                          "--steps", "0"], whole_env=env)
        rank = room.wait_for_ranks()[0]
        self.assertEqual(rank["pid"], job.pid)
        done = room.run("trace", "--duration", "1s", "-o", room.folder / "capture")
        self.assertIn(done.returncode, (0, 7), done.stdout + done.stderr)
        report = json.loads((room.folder / "capture/report.json").read_text())
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
