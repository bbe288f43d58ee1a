"""Two users each run a job on one node, under their own daemons and under the system's. Neither may see,
capture or read the other's job. A socket that one user plants for the other is refused by name."""
import pathlib
import sys
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "support"))
from live_job import report_of  # noqa: E402
from nodes import USERS, Nodes, enter, ranks_of  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
NOT_FOUND, DENIED = 4, 5
JOB = "LOCKSTEP_JOB={user}s lockstep run -- lockstep-sim-rank --forever --time-scale 4 --dp 1 --tp 1 --pp 1"


class TwoUsers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.nodes = Nodes(BIN, names=("a",))
        cls.nodes.start()
        cls.node = cls.nodes["a"]

    def setUp(self):
        self.jobs = {}

    def tearDown(self):
        for job in self.jobs.values():
            job.kill()
            job.wait(10)
        self.node.clear()

    def output(self, user):
        return pathlib.Path(f"/mnt/output-{self.id().rsplit('.', 1)[-1]}-{user}")

    def start(self, user, script=JOB):
        self.jobs[user] = self.node.start(user, script.format(user=user), self.output(user))

    def lockstep(self, user, command, env=None):
        return self.node.sh(user, f"lockstep {command}", check=False, env=env)

    def ranks(self, user, options=""):
        return ranks_of(self.lockstep(user, f"status --format json {options}").stdout)

    def start_both(self):
        for user in USERS:
            self.start(user)
        for user in USERS:
            wait_until(lambda user=user: self.ranks(user), f"{user}'s rank", lambda: "".join(self.output(u).read_text() for u in USERS))

    def assert_apart(self):
        """Checks the separation that every daemon must provide."""
        for user, uid in USERS.items():
            self.assertEqual([(rank["uid"], rank["job"]) for rank in self.ranks(user)], [(uid, f"{user}s")])
        alices = self.ranks("alice")[0]
        status = self.lockstep("bob", "status")
        self.assertNotIn("alice", status.stdout + status.stderr)
        for what in ("--job alices", "--job 12001:alices", f"--pid {alices['pid']}"):
            taken = self.lockstep("bob", f"trace {what} --duration 500ms -o taken")
            self.assertIn(taken.returncode, (NOT_FOUND, DENIED), what + taken.stdout + taken.stderr)
            self.assertFalse(pathlib.Path("/home/bob/taken").exists())
        everything = self.lockstep("bob", "trace --all --duration 500ms -o all --force")
        self.assertEqual(everything.returncode, 0, everything.stderr)
        captured = report_of("/home/bob/all")
        self.assertEqual((captured["capture"]["job"], len(captured["ranks"])), ("bobs", 1))
        self.assertEqual(self.lockstep("alice", "trace --duration 500ms -o hers --force").returncode, 0)
        for command in ("report /home/alice/hers", "export /home/alice/hers --format csv -o stolen"):
            self.assertNotEqual(self.lockstep("bob", command).returncode, 0, command)
        doctor = self.lockstep("bob", f"doctor --pid {alices['pid']}")
        self.assertNotEqual(doctor.returncode, 0, doctor.stdout)

    def unreadable_to_bob(self, *paths):
        return self.node.sh("bob", "".join(f"cat {path} >/dev/null 2>&1 && echo {path}; " for path in paths) + "true").stdout.split()

    def test_users_have_separate_daemons(self):
        self.start_both()
        self.assert_apart()
        hers = "/tmp/lockstep-12001"
        self.assertEqual(self.unreadable_to_bob(f"{hers}/lockstepd.log", f"{hers}/start.lock"), [])
        for command in ("status", "trace --all --duration 500ms -o taken"):
            refused = self.lockstep("bob", f"{command} --daemon {hers}/client.sock")
            self.assertIn(refused.returncode, (NOT_FOUND, DENIED), refused.stdout + refused.stderr)
            self.assertIn("belongs to another user", refused.stderr)
        self.assertFalse(pathlib.Path("/home/bob/taken").exists())
        # If bob names alice's daemon, his job runs without Lockstep or with his own daemon.
        for prefix in (f"lockstep run --daemon {hers}/client.sock", f"LOCKSTEP_SOCKET={hers}/client.sock lockstep run"):
            job = self.node.sh("bob", f"{prefix} -- sh -c 'echo ran $LOCKSTEP_SOCKET'")
            self.assertRegex(job.stdout, r"^ran( /tmp/lockstep-12002/client.sock)?$")
            self.assertIn(f"{hers}/client.sock", job.stderr)
        self.assertEqual(len(self.ranks("alice")), 1)

    def test_users_share_the_systems_daemon(self):
        self.node.sh("root", "lockstepd --log /run/lockstepd.log >/dev/null 2>&1 &")
        wait_until(lambda: self.lockstep("root", "status").returncode == 0, "the system's daemon")
        self.start_both()
        for user in USERS:
            self.assertIn("daemon at /run/lockstep/client.sock", self.output(user).read_text())
        self.assert_apart()
        self.assertEqual({rank["job"] for rank in self.ranks("root")}, {"alices", "bobs"})
        # Bob's rank uses alice's job name but keeps his user id.
        self.jobs["bob"].kill()
        self.node.sh("root", "kill $(pgrep -u bob lockstep-sim)", check=False)
        wait_until(lambda: not self.ranks("bob"), "bob's rank to go")
        self.start("bob", JOB.replace("{user}s", "alices"))
        wait_until(lambda: self.ranks("bob"), "bob's second rank")
        self.assertEqual([(rank["uid"], rank["job"]) for rank in self.ranks("bob")], [(12002, "alices")])
        traced = self.lockstep("alice", "trace --job alices --duration 500ms -o same --force")
        self.assertEqual(traced.returncode, 0, traced.stderr)
        self.assertEqual(len(report_of("/home/alice/same")["ranks"]), 1)
        both = self.lockstep("root", "trace --job alices --duration 500ms -o both")
        self.assertIn("12001:alices", both.stderr)
        # Rings are anonymous memory of the daemon, and bob must not be able to open alice's.
        pid = self.ranks("alice")[0]["pid"]
        self.assertEqual(self.unreadable_to_bob(f"/proc/{pid}/maps", "/proc/$(pgrep lockstepd)/fd/*"), [])

    def assert_refused(self, planted):
        self.start("alice", "lockstep run -- sh -c 'echo ran'")
        self.assertEqual(self.jobs["alice"].wait(60), 0)
        output = self.output("alice").read_text()
        self.assertIn("ran\n", output)
        self.assertIn(planted, output)
        return output

    def test_refuses_a_planted_folder(self):
        self.node.sh("bob", "mkdir -m 777 /tmp/lockstep-12001; lockstepd --socket /tmp/lockstep-12001/client.sock >~/log 2>&1 & sleep 0.5; "
                            "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); "
                            "s.bind(\"/tmp/lockstep-12001/client.sock\"); s.listen(); import time; time.sleep(30)' >/dev/null 2>&1 &")
        wait_until(lambda: "client.sock" in self.node.sh("root", "ls /tmp/lockstep-12001").stdout, "the planted socket")
        output = self.assert_refused("/tmp/lockstep-12001/client.sock: ")
        self.assertIn("another user", output)
        self.assertIn("the command runs without Lockstep", output)
        status = self.lockstep("alice", "status")
        self.assertEqual(status.returncode, NOT_FOUND)
        self.assertIn("another user", status.stderr)

    def test_refuses_a_planted_link(self):
        self.node.sh("bob", "mkdir -m 700 /tmp/bobs; ln -s /tmp/bobs /tmp/lockstep-12001")
        self.assertIn("the command runs without Lockstep", self.assert_refused("/tmp/lockstep-12001/client.sock: "))
        self.assertEqual(self.node.sh("root", "ls /tmp/bobs").stdout, "")


if __name__ == "__main__":
    enter()
    del sys.argv[1:2]
    unittest.main(verbosity=2)
