"""Runs a daemon with clients of later releases on one node. They work together, or the daemon refuses the
client with a message and the job continues.

The later clients are this client with the next version number of the ring's layout
(client/CMakeLists.txt). A client with a later daemon differs only in the Welcome message. OlderDaemonTest
of client/ and OtherMinorTest of daemon/ cover it."""
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from late_ranks import RANK_ARGS  # noqa: E402
from live_job import LiveJob, report_of  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYOUT = dict(re.findall(r"kLayout(Major|Minor) = (\d+);", (ROOT / "wire/ring/layout.h").read_text()))


class Upgrade(unittest.TestCase):
    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="lk-up-"))
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)

    def installation(self, client):
        """Returns a folder with this build's programs and another client."""
        for folder, names in (("bin", ("lockstep", "lockstepd", "lockstep-aggregator", "lockstep-sim-rank")), ("lib", ("liblockstep_sim_cupti.so",))):
            (self.work / folder).mkdir()
            for name in names:
                # Copies, because programs find their parts beside their real file.
                shutil.copy(BIN.parent / folder / name, self.work / folder)
        shutil.copy(BIN.parent / "testing" / client / "liblockstep_client.so", self.work / "lib")
        return self.work / "bin"

    def job(self, client, *rank_args):
        return LiveJob(self.installation(client), self.work / "job", ranks=2, rank_args=["--seed", "7", *RANK_ARGS, *rank_args])

    def loaded_client(self, pid):
        return [line.split()[-1] for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines() if "liblockstep_client" in line][0]

    def test_captures_a_client_of_the_next_minor_layout(self):
        with self.job("next_minor", "--forever") as job:
            status = job.wait_for_ranks()
            pid = status["daemons"][0]["ranks"][0]["pid"]
            self.assertEqual(self.loaded_client(pid), str(self.work / "lib/liblockstep_client.so"))
            for number, window in enumerate((("--duration", "1s"), ("--steps", "3"))):
                done = job.trace(self.work / f"capture{number}", *window)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                report = report_of(self.work / f"capture{number}")
                self.assertEqual([r["rank"] for r in report["ranks"]], [0, 1])
                self.assertEqual(report["capture"]["losses"], [])

    def test_refuses_a_client_of_the_next_major_layout(self):
        with self.job("next_major", "--forever") as job:
            output = wait_until(lambda: re.search(r"(?s).*speaks layout.*", job.cli("status").stdout), "the refusal")[0]
            version = (ROOT / "VERSION").read_text().strip()
            self.assertIn(f"the client is version {version} and speaks layout {int(LAYOUT['Major']) + 1}, the daemon is {version} and speaks "
                          f"{LAYOUT['Major']}: install the client's release of lockstep-daemon on this node", " ".join(output.split()))
            done = job.trace(self.work / "capture", "--duration", "1s")
            self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
            self.assertIsNone(job.process.poll(), "the ranks train on")


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=sys.argv[:1] + sys.argv[2:])
