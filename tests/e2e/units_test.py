"""Checks the systemd units of deploy/systemd with systemd-analyze, without starting them. packages_test.py starts
them."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.argv[1]).resolve()
# Exposure on a scale of 10, by systemd 252. docs/install.md lists the remaining rights.
MOST_EXPOSED = {"lockstepd-broker": 2.0, "lockstepd": 1.2, "lockstep-aggregator": 1.1}


def analyze(*words):
    return subprocess.run(["systemd-analyze", *map(str, words)], text=True, capture_output=True, timeout=60)


class Units(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lk-units-")
        self.addCleanup(folder.cleanup)
        self.units = {}
        for name in MOST_EXPOSED:
            text = (ROOT / f"deploy/systemd/{name}.service.in").read_text()
            unit = pathlib.Path(folder.name) / f"{name}.service"
            # The check needs the program at its path.
            unit.write_text(text.replace("@LOCKSTEP_BINDIR@", str(BIN)).replace("@LOCKSTEP_SYSCONFDIR@", "/etc"))
            self.units[name] = unit

    def test_units_pass_systemd_verify(self):
        for name, unit in self.units.items():
            done = analyze("verify", "--man=no", unit)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""), name)

    def test_units_have_a_low_exposure(self):
        for name, unit in self.units.items():
            most = MOST_EXPOSED[name]
            done = analyze("security", "--no-pager", "--offline=true", f"--threshold={round(most * 10)}", unit)
            level = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
            self.assertIsNotNone(level, done.stdout + done.stderr)
            print(f"{name}.service: exposure {level[1]} of 10")
            self.assertEqual(done.returncode, 0, f"more than {most}:\n{done.stdout}")


if __name__ == "__main__":
    if not shutil.which("systemd-analyze"):
        print("not tested: systemd-analyze is not installed")
        sys.exit(77)
    unittest.main(verbosity=2, argv=sys.argv[:1] + sys.argv[2:])
