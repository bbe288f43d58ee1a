"""Tests that a session leaves no process behind."""
import pathlib
import stat
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import session  # noqa: E402

# As in the bundle, another program runs it, whose name the kernel shows.
DAEMON = f"""#!/bin/sh
exec {sys.executable} -c 'import time; time.sleep(100)' "$0" "$@"
"""


class SessionTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        program = self.work / "bin" / "lockstepd"
        program.parent.mkdir()
        program.write_text(DAEMON)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def running(self):
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and str(self.work).encode() in (entry / "cmdline").read_bytes():
                    found.append(entry.name)
            except OSError:
                continue
        return found

    def test_ends_a_daemon_whose_start_a_signal_interrupts(self):
        setup = types.SimpleNamespace(work=self.work, bundle=self.work, env={}, program_env={})
        start = session.subprocess.Popen

        def interrupted(*args, **kwargs):
            self.started = start(*args, **kwargs)
            self.addCleanup(self.started.kill)
            while b"time.sleep" not in pathlib.Path(f"/proc/{self.started.pid}/cmdline").read_bytes():
                time.sleep(0.01)
            raise KeyboardInterrupt
        with mock.patch.object(session.subprocess, "Popen", interrupted), self.assertRaises(KeyboardInterrupt):
            with session.Session(setup, "cuda"):
                self.fail("the start was interrupted")
        self.assertEqual(self.started.wait(10), -9, "killed")
        self.assertEqual(self.running(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
