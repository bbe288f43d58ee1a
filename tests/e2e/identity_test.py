"""Two nodes and an aggregator know each other by certificates of an authority that `lockstep node` made. The
nodes have their own network namespaces, so that every record crosses mutual TLS. Users have certificates too.
Certificates are renewed and revoked while the job runs. A site with its own authority makes them with
OpenSSL alone."""
import json
import pathlib
import sys
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "support"))
from live_job import report_of  # noqa: E402
from nodes import USERS, Nodes, enter, ranks_of  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
SITE = "/etc/lockstep"
NOT_FOUND, DENIED, PARTIAL = 4, 5, 7
JOB = "LOCKSTEP_JOB=alices LOCKSTEP_SOCKET=/run/lockstep/client.sock lockstep run -- lockstep-sim-rank --forever --time-scale 4 --dp 1 --tp 1 --pp 1"
# docs/identity.md has these commands.
OPENSSL = """\
cd {site}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=Our authority" -keyout ca.key -out ca.crt
certificate() {{  # FOLDER URI
  mkdir -p $1
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=lockstep" -keyout $1/tls.key -out $1/request
  printf 'subjectAltName=URI:%s\\nextendedKeyUsage=clientAuth,serverAuth\\n' $2 > $1/extensions
  openssl x509 -req -in $1/request -CA ca.crt -CAkey ca.key -CAcreateserial -days 90 -extfile $1/extensions -out $1/tls.crt
  cp ca.crt $1
  chmod 600 $1/tls.key
}}
certificate head lockstep://aggregator
certificate a lockstep://node/a
certificate alice lockstep://user/alice
"""


class Identity(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.nodes = Nodes(BIN, names=("a", "b"))
        cls.nodes.start()
        cls.head = cls.nodes["head"]
        cls.site(SITE, f"""\
            lockstep node authority {SITE}/authority
            lockstep node enrol --kind aggregator --authority {SITE}/authority -o {SITE}
            lockstep node enrol a --host a.cluster.example --authority {SITE}/authority -o {SITE}
            lockstep node enrol b --authority {SITE}/authority -o {SITE}
            lockstep node enrol --kind user alice bob --authority {SITE}/authority -o {SITE}""")

    @classmethod
    def site(cls, folder, script):
        """Runs a script as root on the head. The users then own their folders in it."""
        cls.head.sh("root", f"set -e; umask 022; mkdir -p {folder}; {script}")
        for user in USERS:
            cls.head.sh("root", f"test ! -d {folder}/{user} || chown -R {user} {folder}/{user}")

    def setUp(self):
        self.jobs = []

    def tearDown(self):
        self.nodes.end(self.jobs)

    def start(self, site=SITE, aggregator="aggregator", nodes=("a", "b")):
        """Starts the aggregator, the daemons, and a rank of alice's job on each node."""
        self.head.sh("root", f"lockstep-aggregator --listen 0.0.0.0:7077 --tls-dir {site}/{aggregator} --state-dir /run/aggregator "
                             "> /run/aggregator.log 2>&1 &")
        for rank, name in enumerate(nodes):
            self.nodes[name].sh("root", f"lockstepd --tls-dir {site}/{name} --aggregator head:7077 --log /run/lockstepd.log > /run/out 2>&1 &")
            wait_until(lambda name=name: self.nodes[name].sh("root", "lockstep status", check=False).returncode == 0, f"{name}'s daemon")
            env = {"RANK": str(rank), "WORLD_SIZE": str(len(nodes)), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
            self.jobs.append(self.nodes[name].start("alice", JOB, f"/mnt/{self.id()}-{name}", env=env))
        wait_until(lambda: len(self.ranks("alice", site)) == len(nodes), "the job's ranks", self.logs)

    def logs(self):
        """Returns what the programs say, for failures."""
        files = [("head", "/run/aggregator.log"), *((name, "/run/lockstepd.log") for name in ("a", "b"))]
        return "".join(self.nodes[name].sh("root", f"cat {file}", check=False).stdout for name, file in files)

    def lockstep(self, user, command, site=SITE):
        return self.head.sh(user, f"lockstep {command} --aggregator head:7077 --tls-dir {site}/{user}", check=False)

    def ranks(self, user, site=SITE):
        return ranks_of(self.lockstep(user, "status --format json", site).stdout)

    def audit(self):
        return [json.loads(line) for line in self.head.sh("root", "cat /run/aggregator/audit.jsonl").stdout.splitlines()]

    def test_a_capture_crosses_mutual_tls(self):
        self.start()
        traced = self.lockstep("alice", "trace --job alices --duration 500ms -o capture --force")
        self.assertEqual(traced.returncode, 0, traced.stderr + self.logs())
        report = report_of("/home/alice/capture")
        self.assertEqual(len(report["ranks"]), 2)
        self.assertFalse(report["capture"]["partial"])
        self.assertEqual(self.ranks("bob"), [])
        for what in ("--job alices", "--job 12001:alices"):
            self.assertIn(self.lockstep("bob", f"trace {what} --duration 500ms -o taken").returncode, (NOT_FOUND, DENIED))
        by = {(line["what"], line.get("by"), line.get("user")) for line in self.audit()}
        self.assertIn(("trace", "certificate", "alice"), by)
        self.assertIn(("trace", "certificate", "bob"), by)

    def test_other_protections_are_refused_with_a_sentence(self):
        self.start(nodes=("a",))
        self.head.sh("root", "head -c 32 /dev/urandom | base64 > /run/token; chmod 600 /run/token")
        for options, sentence in (("--token-file /run/token", "does not have this token"),
                                  ("--insecure-plaintext-tcp", "no aggregator answers"),
                                  ("", "give --token-file, or --tls-dir"),
                                  (f"--tls-dir {SITE}/a", "the call proves no user")):
            refused = self.head.sh("root", f"lockstep status --aggregator head:7077 {options}", check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(sentence, refused.stderr)

    def test_a_renewed_certificate_is_used_and_a_revoked_one_refused(self):
        self.start()
        names_of_a = f"openssl x509 -noout -ext subjectAltName -in {SITE}/a/tls.crt"
        names = self.head.sh("root", names_of_a).stdout
        self.assertIn("DNS:a.cluster.example", names)
        renewed = self.head.sh("root", f"lockstep node rotate --tls-dir {SITE}/a --authority {SITE}/authority")
        self.assertIn("node a, valid until", renewed.stdout)
        self.assertEqual(self.head.sh("root", names_of_a).stdout, names)
        self.head.sh("root", f"lockstep node revoke b --authority {SITE}/authority --tls-dir {SITE}/aggregator")
        wait_until(lambda: len(self.ranks("alice")) == 1, "the end of b's stream", self.logs)
        rest = self.lockstep("alice", "trace --job alices --duration 500ms -o rest --force")
        self.assertEqual(rest.returncode, PARTIAL, rest.stderr + self.logs())
        self.assertIn("rank 1 of job alices reached no daemon", rest.stderr)
        refused = [line for line in self.audit() if line["what"] == "connect" and line["result"] == "refused"]
        self.assertTrue(refused and all("node b has been revoked" in line["text"] for line in refused), refused)
        self.assertIn("node b has been revoked", self.nodes["b"].sh("root", "cat /run/lockstepd.log").stdout)
        # A new certificate admits the node again.
        self.head.sh("root", f"lockstep node enrol b --authority {SITE}/authority -o {SITE}")
        wait_until(lambda: len(self.ranks("alice")) == 2, "b with its new certificate", self.logs)

    def test_a_daemon_cannot_take_another_nodes_id(self):
        taken = self.nodes["a"].sh("root", f"lockstepd --tls-dir {SITE}/a --node-id b --aggregator head:7077", check=False)
        self.assertNotEqual(taken.returncode, 0)
        self.assertIn("is of node a; leave --node-id out", taken.stderr)

    def test_a_daemon_beside_its_broker_has_a_key_that_only_root_may_read(self):
        """As the two units of systemd start them: the broker as root, and the daemon as a user without rights."""
        site = "/etc/split"
        self.site(site, OPENSSL.format(site=site))
        self.head.sh("root", f"lockstep-aggregator --listen 0.0.0.0:7077 --tls-dir {site}/head --state-dir /run/aggregator > /run/aggregator.log 2>&1 &")
        settings = f"--tls-dir {site}/a --aggregator head:7077"
        node = self.nodes["a"]
        self.assertNotEqual(node.sh("bob", f"cat {site}/a/tls.key", check=False).returncode, 0)
        node.sh("root", f"lockstepd {settings} --broker-for bob > /run/broker.log 2>&1 &")
        wait_until(lambda: node.sh("root", "grep ' broker ' /run/broker.log", check=False).returncode == 0, "the broker",
                   lambda: node.sh("root", "cat /run/broker.log", check=False).stdout)
        node.sh("bob", f"lockstepd {settings} --with-broker > /tmp/split.log 2>&1 &")
        wait_until(lambda: node.sh("bob", "grep ' uplink_up ' /tmp/split.log", check=False).returncode == 0, "the daemon's connection",
                   lambda: node.sh("root", "cat /run/broker.log /tmp/split.log", check=False).stdout + self.logs(), 30)

    def test_openssl_alone_makes_the_certificates(self):
        site = "/etc/site"
        self.site(site, OPENSSL.format(site=site))
        self.start(site, aggregator="head", nodes=("a",))
        traced = self.lockstep("alice", "trace --job alices --duration 500ms -o openssl --force", site)
        self.assertEqual(traced.returncode, 0, traced.stderr + self.logs())

    def test_users_without_a_token_check_its_authority(self):
        self.head.sh("root", "head -c 32 /dev/urandom | base64 > /etc/token; chmod 600 /etc/token; lockstep node authority /etc/of_token --token-file /etc/token; "
                             "lockstep-aggregator --listen 0.0.0.0:7078 --token-file /etc/token --state-dir /run/other > /run/log 2>&1 &")
        wait_until(lambda: self.head.sh("root", "lockstep status --aggregator head:7078 --token-file /etc/token", check=False).returncode == 0,
                   "the aggregator")
        # The server is the right one; MUNGE, which this one does not use, would identify the user.
        refused = self.head.sh("bob", "lockstep status --aggregator head:7078 --tls-dir /etc/of_token", check=False)
        self.assertIn("the call proves no user", refused.stderr)


if __name__ == "__main__":
    enter()
    unittest.main(argv=sys.argv[:1])
