"""Tests the files of a release, made from this build: the hardening of each program and library, the SPDX
documents, equal bytes of a second making in other surroundings, and signatures."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from machine_root import output, run  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
BUILD = BIN.parent
TARGETS = ("lockstep", "lockstepd", "lockstep-aggregator", "lockstep_client", "lockstep_starter")
VERSION = (ROOT / "VERSION").read_text().strip()
EPOCH = "1700000000"


class Release:
    """The bundle and the packages, made once from the programs of this build, and their contents."""
    work = None

    @classmethod
    def make(cls):
        if cls.work:
            return
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="lk-release-"))
        unittest.addModuleCleanup(shutil.rmtree, cls.work)
        cls.files = cls.make_files(cls.work / "out", umask=0o022)
        cls.bundle = cls.work / f"out/lockstep-{VERSION}-x86_64"
        cls.contents = {}
        for file in cls.files:
            if file.suffix == ".deb":
                cls.contents[file] = cls.work / "debs" / file.name
                cls.contents[file].mkdir(parents=True)
                output("dpkg-deb", "-x", file, cls.contents[file])
            elif file.suffix == ".zst":
                cls.contents[file] = cls.bundle

    @staticmethod
    def make_files(folder, umask, **surroundings):
        env = {**os.environ, "DEBEMAIL": "packages@example.org", "SOURCE_DATE_EPOCH": EPOCH, **surroundings}
        for script, args in (("bundle", ("--level", "1")), ("deb", ("--level", "0"))):
            output("bash", ROOT / f"tools/dev/{script}.sh", "--built", BUILD, "--out", folder, *args, cwd=ROOT, env=env, umask=umask)
        return sorted(p for p in folder.iterdir() if p.is_file())


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


class Elf:
    """The properties of a linked file that protect it."""

    def __init__(self, path):
        header, dynamic = output("readelf", "-hlW", path), output("readelf", "-dW", path)
        imports = set(re.findall(r" UND (\w+)", output("readelf", "--dyn-syms", "-W", path)))
        self.pie = bool(re.search(r"Type:\s+DYN", header))
        self.relro = "GNU_RELRO" in header
        self.bind_now = bool(re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW|\(BIND_NOW\)", dynamic))
        self.stack_protector = "__stack_chk_fail" in imports
        self.fortify = any(re.fullmatch(r"__\w+_chk", name) for name in imports)

    def lacks(self):
        return sorted(name for name, present in vars(self).items() if not present)


class Hardening(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        Release.make()
        # Paths of objects, relative to the build folder, and the command that compiled each.
        inputs = output("ninja", "-C", BUILD, "-t", "inputs", *TARGETS).splitlines()
        cls.objects = sorted({line for line in inputs if line.endswith(".o")})
        commands = [entry["command"].split() for entry in json.loads((BUILD / "compile_commands.json").read_text())]
        cls.commands = {words[words.index("-o") + 1]: words for words in commands}

    def test_each_program_and_library_is_protected(self):
        checked = 0
        for artefact, folder in Release.contents.items():
            for path in sorted(p for p in folder.rglob("*") if p.is_file() and is_elf(p)):
                if path.parent == Release.bundle / "lib" and path.name != "liblockstep_client.so":
                    continue
                if path.name == "train_loop":  # a program of nvcc, for gpu-check
                    self.assertNotIn(b"tmpxft_", path.read_bytes(), "a name that differs in each build")
                    continue
                lacks = Elf(path).lacks()
                if path.parent == Release.bundle / "bin":
                    # A static program imports nothing. Its object shows the rest.
                    self.assertLessEqual(set(lacks), {"fortify", "stack_protector"}, path)
                else:
                    self.assertEqual(lacks, [], f"{artefact.name}: {path}")
                checked += 1
        self.assertEqual(checked, 3 + 3 + 1 + 4, "starters, programs, client; the packages' files")

    def test_each_object_was_compiled_with_every_protection(self):
        self.assertGreater(len(self.objects), 50)
        for item in self.objects:
            words = self.commands[item]
            # The last of several options counts.
            for kind, wanted in ((r"-f(no-)?stack-protector", "-fstack-protector-strong"), (r"-[DU]_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"),
                                 (r"-fcf-protection", "-fcf-protection=full")):
                self.assertEqual([word for word in words if re.match(kind, word)][-1:], [wanted], item)
            optimisation = [word for word in words if re.match(r"-O", word)][-1:]
            self.assertIn(optimisation, (["-O1"], ["-O2"], ["-O3"]), f"{item}: without optimisation, _FORTIFY_SOURCE has no effect")

    def test_each_object_claims_control_flow_protection(self):
        printed = output("readelf", "-nW", *self.objects, cwd=BUILD)
        claims = {name: notes for name, notes in re.findall(r"File: (\S+)\n(.*?)(?=\nFile: |\Z)", printed, re.S)}
        self.assertEqual(len(claims), len(self.objects))
        self.assertEqual([name for name, notes in claims.items() if "x86 feature: IBT, SHSTK" not in notes], [])

    def test_the_starters_object_uses_the_checked_functions(self):
        starter = next(item for item in self.objects if "lockstep_starter.dir" in item)
        imports = set(re.findall(r" UND (\w+)", output("readelf", "-sW", BUILD / starter)))
        self.assertLessEqual({"__stack_chk_fail", "__snprintf_chk"}, imports)

    def test_libraries_of_debian_have_what_install_md_states(self):
        """They are copies, and Debian compiled them."""
        libraries = {p.name: Elf(p) for p in (Release.bundle / "lib").iterdir() if p.name != "liblockstep_client.so"}
        page = re.search(r"^\*\*Libraries of Debian\.\*\*(.*?)^The Slurm plugin", (ROOT / "docs/install.md").read_text(), re.M | re.S).group(1)
        self.assertEqual(len(libraries), int(re.search(r"All (\d+) are", page).group(1)))
        self.assertEqual([name for name, library in libraries.items() if not (library.pie and library.relro)], [])
        lazy = page[page.index("BIND_NOW:"):]
        self.assertEqual(sorted(name for name, library in libraries.items() if not library.bind_now), sorted(re.findall(r"`([^`]+)`", lazy)))

    @unittest.skipUnless(pathlib.Path("/usr/include/slurm/spank.h").exists(), "Debian: libslurm-dev")
    def test_the_slurm_plugin_is_protected_as_the_page_builds_it(self):
        command = re.search(r"<!-- run: admin-build -->\n```sh\n(.*?)```", (ROOT / "docs/slurm.md").read_text(), re.S).group(1)
        command = command.replace("/opt/lockstep/lib/", f"{Release.work}/").replace("/opt/lockstep/slurm", str(Release.bundle / "slurm"))
        output("sh", "-ec", command)
        self.assertEqual(Elf(Release.work / "spank_lockstep.so").lacks(), [])


class Sbom(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        Release.make()
        cls.documents = {file: json.loads(pathlib.Path(f"{file}.spdx.json").read_text()) for file in Release.contents}

    def test_documents_have_the_members_that_spdx_requires(self):
        for document in self.documents.values():
            self.assertEqual((document["spdxVersion"], document["dataLicense"], document["SPDXID"]), ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
            self.assertEqual(document["creationInfo"]["created"], "2023-11-14T22:13:20Z")
            elements = [document, *document["packages"], *document["files"]]
            ids = [element["SPDXID"] for element in elements]
            self.assertEqual(len(ids), len(set(ids)))
            self.assertEqual([name for name in ids if not re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name)], [])
            for relationship in document["relationships"]:
                self.assertLessEqual({relationship["spdxElementId"], relationship["relatedSpdxElement"]}, set(ids))
            for package in document["packages"]:
                self.assertLessEqual({"name", "versionInfo", "downloadLocation", "licenseDeclared"}, set(package))
        if shutil.which("pyspdxtools"):
            for file in self.documents:
                output("pyspdxtools", "-i", f"{file}.spdx.json")

    def test_documents_list_every_file_with_its_checksums(self):
        for artefact, document in self.documents.items():
            folder = Release.contents[artefact]
            expected = {f"./{p.relative_to(folder)}": p for p in folder.rglob("*") if p.is_file()}
            self.assertEqual({file["fileName"] for file in document["files"]}, set(expected), artefact.name)
            for file in document["files"]:
                sums = {item["algorithm"]: item["checksumValue"] for item in file["checksums"]}
                self.assertEqual(sums["SHA256"], hashlib.sha256(expected[file["fileName"]].read_bytes()).hexdigest())
            own = document["packages"][0]
            self.assertEqual(own["checksums"][0]["checksumValue"], hashlib.sha256(artefact.read_bytes()).hexdigest())
            self.assertEqual(own["versionInfo"], VERSION)
            self.assertRegex(own["sourceInfo"], r"^git commit [0-9a-f]{40}|^sources without")

    def packages_of(self, name):
        artefact = next(file for file in self.documents if file.name.startswith(name))
        return {package["name"]: package for package in self.documents[artefact]["packages"]}

    def test_the_bundles_document_names_the_package_of_each_library(self):
        packages = self.packages_of(f"lockstep-{VERSION}")
        for line in (Release.bundle / "licenses/LIBRARIES").read_text().splitlines():
            _, package, version = line.split()
            self.assertEqual(packages[package]["versionInfo"], version)
            self.assertTrue(packages[package]["externalRefs"][0]["referenceLocator"].startswith("pkg:deb/debian/"))
        self.assertEqual(packages["zlib1g"]["licenseDeclared"], "Zlib")
        self.assertEqual(packages["libc6"]["licenseDeclared"], "NOASSERTION", "its copyright file is a text for people")
        self.assertEqual(packages["uplot"]["licenseDeclared"], "MIT")

    def test_documents_name_each_static_library_of_the_link_commands(self):
        for name, target in ((f"lockstep-{VERSION}", "lockstep"), (f"lockstep-{VERSION}", "lockstep_starter"), ("lockstep-cli", "lockstep"),
                             ("lockstep-aggregator", "lockstep-aggregator"), ("lockstep-daemon", "lockstepd"),
                             ("lockstep-client", "lockstep_client")):
            link = output("ninja", "-C", BUILD, "-t", "commands", "-s", target)
            archives = set(re.findall(r"/usr/lib/\S+\.a\b", link))
            owners = {output("dpkg-query", "-S", archive).split(":")[0] for archive in archives} | {"libc6-dev"}
            self.assertLessEqual(owners, set(self.packages_of(name)), f"{name}: {archives}")


class SameBytes(unittest.TestCase):
    def test_other_surroundings_give_the_same_files(self):
        Release.make()
        home = Release.work / "home"
        home.mkdir()
        again = Release.make_files(Release.work / "other folder/out", umask=0o077, TZ="Asia/Kolkata", LC_ALL="C", HOME=str(home),
                                   XDG_RUNTIME_DIR=str(home), USER="other", COLUMNS="40")
        self.assertEqual([file.name for file in again], [file.name for file in Release.files])
        for first, second in zip(Release.files, again):
            self.assertEqual(first.read_bytes(), second.read_bytes(), first.name)


@unittest.skipUnless(shutil.which("gpg"), "Debian: gpg, gpg-agent")
class Signatures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        Release.make()
        cls.home = pathlib.Path(tempfile.mkdtemp(prefix="lk-gpg-"))
        cls.env = {**os.environ, "GNUPGHOME": str(cls.home)}
        cls.addClassCleanup(shutil.rmtree, cls.home, ignore_errors=True)
        cls.addClassCleanup(run, "gpgconf", "--kill", "gpg-agent", env=cls.env)
        output("gpg", "--batch", "--passphrase", "", "--quick-generate-key", "Test <test@example.org>", "ed25519", "sign", "never", env=cls.env)
        cls.folder = cls.home / "release"
        cls.folder.mkdir()
        for file in Release.files:
            shutil.copy(file, cls.folder)
        output("bash", ROOT / "tools/dev/sign.sh", "--key", "test@example.org", cls.folder, cwd=ROOT, env=cls.env)

    def verify(self, name):
        return run("gpg", "--verify", f"{name}.asc", name, cwd=self.folder, env=self.env).returncode == 0

    def check_sums(self):
        # Without --strict, sha256sum skips a line whose checksum is not hexadecimal, and exits with 0.
        return run("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=self.folder).returncode == 0

    def test_every_file_has_a_checksum_and_a_signature(self):
        names = [file.name for file in Release.files]
        self.assertEqual(len(names), 10, "bundle and four packages, each with its SPDX document")
        listed = [line.split()[1] for line in (self.folder / "SHA256SUMS").read_text().splitlines()]
        self.assertEqual(sorted(listed), sorted(names))
        self.assertTrue(self.check_sums())
        for name in [*names, "SHA256SUMS"]:
            self.assertTrue(self.verify(name), name)

    def test_one_changed_byte_is_refused(self):
        for name in [Release.files[0].name, f"lockstep-cli_{VERSION}-1_amd64.deb", "SHA256SUMS"]:
            path = self.folder / name
            before = path.read_bytes()
            for offset, byte in ((0, ord("g")), (100, before[100] ^ 1)):
                path.write_bytes(before[:offset] + bytes([byte]) + before[offset + 1:])
                self.assertFalse(self.verify(name), name)
                self.assertFalse(self.check_sums(), name)
            path.write_bytes(before)
            self.assertTrue(self.verify(name) and self.check_sums())


if __name__ == "__main__":
    unittest.main(verbosity=2)
