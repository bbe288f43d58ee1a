#!/usr/bin/env python3
"""Tests that each rule of ./dev check finds a planted fault, in a copy of the tree."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONG = "This sentence " + "has more words than a reader can keep in mind and " * 3 + "ends late."
GUARDED = """#include "base/mutex.h"
class Planted {
  lockstep::Mutex mutex_;
  int count_;
};
"""

# (check, planted file, its text, words of the finding). A text that begins with "+" is appended to an existing file.
PLANTED = [
    ("layers", "base/planted.cc", '#include "daemon/daemon.h"\n', "base may not include daemon"),
    ("layers", "analysis/prepare/planted.cc", '#include "analysis/explain/explain.h"\n', "analysis/prepare may not include analysis/explain"),
    ("layers", "report/planted.cc", '#include "analysis/explain/links.h"\n', "analysis/explain/links.h is private to analysis/explain"),
    ("layers", "aggregator/planted.cc", '#include "aggregator/site/site_fixture.h"\n', "nothing stands on a test"),
    ("layers", "client/planted.cc", "#include <string>\n", "the client links no libstdc++"),
    ("layers", "base/planted.cc", "std::istreambuf_iterator<char> it;\n", "base/planted.cc:1: throws"),
    ("layers", "base/unlisted/planted.cc", "\n", "its folder is not in FOLDERS"),
    ("layers", "report/CMakeLists.txt", "+\nlockstep_public_headers(planted.h)\n", "report/planted.h: public in CMakeLists.txt, and not there"),
    ("classes", "report/planted.cc", "namespace lockstep::report {\nvoid Planted::First() {}\n}\n", "lockstep::report::Planted is defined in"),
    ("classes", "report/planted.h", "namespace lockstep::formats {\nstruct PythonLiteral {\n};\n}\n", "both define lockstep::formats::PythonLiteral"),
    ("members", "report/planted.h", GUARDED, "Planted has a mutex, and `int count_` does not say what protects it"),
    ("members", "report/planted.h", "std::mutex planted;\n", "std::mutex: use base/mutex.h"),
    ("words", "report/planted.h", "// The daemon is told of it.\n", 'planted.h:1: "told"'),
    ("words", "report/planted.h", "// Whoever asks gets it.\n", 'planted.h:1: "Whoever"'),
    ("words", "report/planted.h", "// It connects anew.\n", 'planted.h:1: "anew"'),
    ("words", "report/planted.h", "// Waits until somebody listens.\n", 'planted.h:1: "somebody"'),
    ("words", "report/planted.h", "// A mark is no step.\n", 'planted.h:1: "is no"'),
    ("words", "report/planted.h", "// Whether it runs.\n", 'the comment opens with "Whether"'),
    ("words", "docs/planted.md", "# What it does\n", 'the heading opens with "What"'),
    ("words", "docs/planted.md", LONG + "\n", "a sentence of"),
    ("words", "report/planted_test.cc", "TEST(Planted, WhoeverAsksGetsIt) {}\n", '"Whoever" in a test\'s name'),
    ("words", "report/planted_test.cc", "TEST(Planted, WhichOneIsRight) {}\n", "the test's name opens with"),
    ("words", "report/planted.cc", 'auto text = "the daemon was told so";\n', '"told" in a text'),
    ("paths", "docs/planted.md", "[there](nowhere.md)\n", "the link nowhere.md leads nowhere"),
    ("paths", "docs/planted.md", "[there](glossary.md#nowhere)\n", "names a heading that does not exist"),
    ("paths", "docs/planted.md", "See `report/nowhere.cc`.\n", "report/nowhere.cc does not exist"),
    ("paths", "report/planted.h", "// See report/nowhere.cc.\n", "report/nowhere.cc does not exist"),
    ("format", "report/planted.cc", "int  planted( ) ;\n", "report/planted.cc:1"),
    ("revisions", ".git-blame-ignore-revs", "+" + "0123456789" * 4 + "\n", "which is not in the history"),
]
COMMANDS = {
    "format": ["bash", "tools/dev/format.sh", "--check"],
    "revisions": ["bash", "tools/dev/check.sh"],
}


class Checks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lockstep-checks-")
        cls.root = pathlib.Path(cls.folder.name) / "tree"
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
        for name in filter(None, listed.stdout.split("\n")):
            if (ROOT / name).is_file():
                (cls.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, cls.root / name)
        subprocess.run(["git", "init", "-q"], cwd=cls.root, check=True)
        subprocess.run(["git", "add", "-A"], cwd=cls.root, check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_check(self, check: str, name: str):
        command = COMMANDS.get(check, [sys.executable, f"tools/check_{check}.py"])
        if check == "words":
            command = [*command, name]
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def plant(self, check: str, name: str, text: str, finding: str):
        path = self.root / name
        before = path.read_bytes() if path.exists() else None
        made = not path.parent.exists()
        path.parent.mkdir(exist_ok=True)
        path.write_text(before.decode() + text[1:] if text.startswith("+") else text)
        second = self.root / "report/planted_too.cc"
        if check == "classes":
            second.write_text(text.replace("First", "Second"))
        try:
            code, output = self.run_check(check, name)
        finally:
            second.unlink(missing_ok=True)
            if before is not None:
                path.write_bytes(before)
            else:
                path.unlink()
            if made:
                path.parent.rmdir()
        self.assertNotEqual(code, 0, output)
        self.assertIn(finding, output)

    def test_finds_each_planted_fault(self):
        for check, name, text, finding in PLANTED:
            with self.subTest(check=check, finding=finding):
                self.plant(check, name, text, finding)

    def test_finds_a_room_with_too_many_files(self):
        room = self.root / "scenario"
        for number in range(41):
            (room / f"planted_{number}.h").write_text("\n")
        code, output = self.run_check("layers", "")
        for number in range(41):
            (room / f"planted_{number}.h").unlink()
        self.assertEqual(code, 1, output)
        self.assertIn("a room has at most 40", output)

    def test_finds_nothing_in_the_tree(self):
        for check in ("layers", "classes", "members", "paths"):
            code, output = self.run_check(check, "")
            self.assertEqual(code, 0, output)


if __name__ == "__main__":
    unittest.main()
