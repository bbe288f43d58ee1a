"""Each case is a call that is refused, and the same call by a user who may make it. A refusal writes nothing, neither for the
caller nor in the aggregator's captures, and leaves one refusal in the audit log. The calls are those of the real programs over gRPC,
HTTP and the node's sockets."""
import http.client
import json
import pathlib
import ssl
import sys
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "support"))
import nodes as cluster  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
SITE, STATE = "/etc/lockstep", "/run/aggregator"
HEAD, HTTPS = "10.79.0.1", 9465
JOB = "LOCKSTEP_JOB={name} LOCKSTEP_SOCKET=/run/lockstep/client.sock lockstep run -- lockstep-sim-rank --forever --time-scale 4 --dp 1 --tp 1 --pp 1"
# Carol may see everything and capture nothing, dave may do everything, and the others may capture their own jobs.
cluster.USERS.update(carol=12003, dave=12004)
REFUSED = ("refused", "denied", "failed", "no_such_job")
AGGREGATOR = (f"lockstep-aggregator --listen 0.0.0.0:7077 --tls-dir {SITE}/aggregator --token-file /etc/token --http 0.0.0.0:{HTTPS} "
              f"--operators alice,bob --viewers carol --admins dave --state-dir {STATE} > /run/aggregator.log 2>&1 &")
LOCAL_AGGREGATOR = "lockstep-aggregator --listen unix:/run/local/socket --token-file /etc/token --http 127.0.0.1:9466 --state-dir /run/local > /run/local.log 2>&1 &"
CERTIFICATES = f"""\
set -e; umask 022; mkdir -p {SITE}; cd {SITE}
lockstep node authority {SITE}/authority
lockstep node authority {SITE}/others
lockstep node enrol --kind aggregator --authority {SITE}/authority -o {SITE}
lockstep node enrol a --authority {SITE}/authority -o {SITE}
lockstep node enrol --kind user alice bob carol dave --authority {SITE}/authority -o {SITE}
lockstep node enrol --kind user alice --authority {SITE}/others -o {SITE}/forged
cp {SITE}/authority/ca.crt {SITE}/forged/alice/ca.crt
mkdir revoked; lockstep node enrol --kind user alice --authority {SITE}/authority -o {SITE}/revoked
mkdir expired; openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=lockstep -keyout expired/tls.key -out expired/request
printf 'subjectAltName=URI:lockstep://user/alice\\nextendedKeyUsage=clientAuth\\n' > expired/extensions
openssl x509 -req -in expired/request -CA authority/ca.crt -CAkey authority/ca.key -set_serial 99 -days -1 -extfile expired/extensions -out expired/tls.crt
cp authority/ca.crt expired
head -c 32 /dev/urandom | base64 > /etc/token; head -c 32 /dev/urandom | base64 > /etc/other; chmod 600 /etc/token /etc/other
make() {{ lockstep token create -o /etc/$1.token --tls-dir {SITE}/aggregator --token-file $2 --job $3 --user $4 --role $5 --valid $6; }}
make viewer /etc/token alices alice viewer 1h
make operator /etc/token alices alice operator 1h
make other_job /etc/token others alice operator 1h
make other_user /etc/token alices bob operator 1h
make other_secret /etc/other alices alice operator 1h
make expired /etc/token alices alice operator 1s
echo $(cut -d. -f1,2 /etc/operator.token).$(cut -d. -f3,4 /etc/other_job.token) > /etc/changed.token
chmod 600 /etc/*.token
chown -R alice alice forged revoked expired; chown -R bob bob; chown -R carol carol; chown -R dave dave
"""


class Access(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.nodes = cluster.Nodes(BIN, names=("a",))
        cls.nodes.start()
        cls.head, cls.node = cls.nodes["head"], cls.nodes["a"]
        cls.root(CERTIFICATES)
        cls.root(f"mkdir -m 700 /run/local; {AGGREGATOR} {LOCAL_AGGREGATOR}")
        cls.node.sh("root", f"lockstepd --tls-dir {SITE}/a --aggregator head:7077 --operators alice,bob --viewers carol --admins dave "
                            "--audit-log /run/audit.jsonl > /run/lockstepd.log 2>&1 &")
        wait_until(lambda: cls.node.sh("root", "lockstep status", check=False).returncode == 0, "the daemon")
        cls.jobs = [cls.node.start(user, JOB.format(name=name), f"/mnt/{name}", env={"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"})
                    for user, name in (("alice", "alices"), ("carol", "carols"))]
        wait_until(lambda: len(cluster.ranks_of(cls.run_as("dave", f"status --format json {cls.by('dave')}").stdout)) == 2, "the jobs", cls.logs)
        traced = cls.run_as("alice", f"trace --job alices --duration 300ms -o first {cls.by('alice')}")
        assert traced.returncode == 0, traced.stderr + cls.logs()
        cls.capture = cls.root(f"ls {STATE}/captures").stdout.split()[0]
        cls.root(f"lockstep node revoke --kind user alice --authority {SITE}/authority --tls-dir {SITE}/aggregator; "
                 f"lockstep node enrol --kind user alice --authority {SITE}/authority -o {SITE}; chown -R alice {SITE}/alice")
        ranks = cluster.ranks_of(cls.run_as("dave", f"status --format json {cls.by('dave')}").stdout)
        cls.pid = next(rank["pid"] for rank in ranks if rank["job"] == "alices")

    @classmethod
    def tearDownClass(cls):
        cls.nodes.end(cls.jobs)

    @classmethod
    def root(cls, script, check=True):
        return cls.head.sh("root", script, check=check)

    @classmethod
    def logs(cls):
        return cls.root("cat /run/aggregator.log").stdout + cls.node.sh("root", "cat /run/lockstepd.log").stdout

    @staticmethod
    def by(who):
        """Returns the flags of a caller: a user's certificate, or /etc/WHO.token."""
        if who in cluster.USERS or "/" in who or who == "expired-certificate":
            folder = "expired" if who == "expired-certificate" else who
            return f"--aggregator head:7077 --tls-dir {SITE}/{folder}"
        return f"--aggregator head:7077 --token-file /etc/{who} --tls-dir {SITE}/aggregator"

    @classmethod
    def run_as(cls, user, command):
        return cls.head.sh(user, f"lockstep {command}", check=False)

    def refusals(self):
        """Returns the last line of each refused call, of the aggregators and the daemon, by its id."""
        found = {}
        for node, file in ((self.head, f"{STATE}/audit.jsonl"), (self.head, "/run/local/audit.jsonl"), (self.node, "/run/audit.jsonl")):
            for line in node.sh("root", f"cat {file}", check=False).stdout.splitlines():
                entry = json.loads(line)
                found[entry["id"]] = entry if entry.get("result") in REFUSED else None
        return {key: entry for key, entry in found.items() if entry}

    def written(self):
        return self.root(f"ls {STATE}/captures /home/*; ls /run/local/captures").stdout

    def refused(self, call, sentence):
        """Checks that the call, which returns whether it succeeded and its text, is refused with one audit line and writes nothing."""
        before, files = self.refusals(), self.written()
        succeeded, text = call()
        self.assertFalse(succeeded, text)
        self.assertIn(sentence, text)
        wait_until(lambda: len(self.refusals()) > len(before), "the audit line", lambda: text)
        self.assertEqual(len(self.refusals()), len(before) + 1, self.refusals().keys() - before.keys())
        self.assertEqual(self.written(), files)

    def grpc(self, who, command, node=None, user=None):
        """Returns a call of the lockstep command as that caller. On the node itself, the kernel identifies the user."""
        def call():
            flags = "" if node else self.by(who)
            done = (node or self.head).sh(user or (who if who in cluster.USERS else "root"), f"lockstep {command} {flags}", check=False)
            return done.returncode == 0, done.stderr + done.stdout
        return call

    def https(self, path, token=None, cookie=None, certificate=None, port=HTTPS, host=None):
        """Returns a GET request to the aggregator, from the head, as a call."""
        lines = [f"path={path!r}; port={port}; headers={{}}; certificate={certificate!r}"]
        if token:
            lines.append(f"headers['Authorization'] = 'Bearer ' + open('/etc/{token}').read().strip()")
        if cookie:
            lines.append(f"headers['Cookie'] = {cookie!r}")
        if host:
            lines.append(f"headers['Host'] = {host!r}")
        script = "\n".join([*lines, HTTP_CLIENT])

        def call():
            self.root("cat > /run/request.py <<'END'\n" + script + "\nEND")
            done = self.root("python3 /run/request.py", check=False)
            status, _, text = done.stdout.partition("\n")
            return status == "200", text + done.stderr
        return call

    def allowed(self, call):
        succeeded, text = call()
        self.assertTrue(succeeded, text)
        return text

    # ---- gRPC

    def test_grpc_needs_a_valid_proof(self):
        status = "status"
        self.allowed(self.grpc("alice", status))
        self.allowed(self.grpc("token", status))
        self.allowed(self.grpc("operator.token", status))
        for who, user, sentence in (("expired-certificate", "alice", "expired on"),
                                    ("revoked/alice", "alice", "has been revoked"),
                                    ("forged/alice", "alice", "certificate"),
                                    ("a/../a", "root", "the call proves no user"),
                                    ("aggregator/../aggregator", "root", "the call proves no user"),
                                    ("expired.token", "root", "has expired"),
                                    ("changed.token", "root", "did not sign")):
            with self.subTest(who=who):
                self.refused(self.grpc(who, status, user=user), sentence)
        self.refused(self.grpc("other_secret.token", status), "did not sign")

    def test_grpc_traces_only_for_those_who_may(self):
        window = "--duration 500ms --force -o trace"
        for who, sentence in (("bob", "is user 12001's, and you are user 12002"), ("carol", "is user 12001's, and you are user 12003"),
                              ("viewer.token", "your token does not let you capture it"),
                              ("other_job.token", "your token is for job others"),
                              ("other_user.token", "your token is for job alices, to which")):
            with self.subTest(who=who):
                self.refused(self.grpc(who, f"trace --job alices {window}"), sentence)
        self.refused(self.grpc("bob", f"trace --job 12001:alices {window}"), "is user 12001's")
        self.refused(self.grpc("bob", f"trace --pid {self.pid} {window}"), "12001")
        self.refused(self.grpc("carol", f"trace --job carols {window}"), "--operators do not include you")
        self.refused(self.grpc("carol", "record on --job carols"), "--operators do not include you")
        for who in ("alice", "dave", "operator.token", "token"):
            with self.subTest(who=who):
                self.allowed(self.grpc(who, f"trace --job alices {window}"))
        self.allowed(self.grpc("alice", f"trace --pid {self.pid} {window}"))
        self.allowed(self.grpc("dave", f"trace --job carols {window}"))
        self.allowed(self.grpc("dave", "record on --job carols --gpu 100ms/10m"))
        wait_until(lambda: "  captures " in self.allowed(self.grpc("dave", "record status")), "the window", self.logs)
        self.allowed(self.grpc("dave", "record off --job carols"))

    def test_grpc_reads_captures_only_for_those_who_may(self):
        report = f"report {self.capture} --format json"
        for who, sentence in (("bob", "is user 12001's"), ("other_job.token", "your token is for job others"), ("other_user.token", "your token is for job alices")):
            with self.subTest(who=who):
                self.refused(self.grpc(who, report), sentence)
        for path in ("../captures/" + self.capture, "..", "no-such-capture"):
            with self.subTest(path=path):
                self.assertFalse(self.grpc("alice", f"report {path} --format json")()[0])
        for who in ("alice", "carol", "dave", "viewer.token", "operator.token", "token"):
            with self.subTest(who=who):
                self.allowed(self.grpc(who, report))
        self.refused(self.grpc("bob", "top --job alices --once"), "12001")

    def test_grpc_is_never_plaintext(self):
        done = self.head.sh("root", "lockstep status --aggregator head:7077 --token-file /etc/token --insecure-plaintext-tcp", check=False)
        self.assertNotEqual(done.returncode, 0)

    # ---- HTTP

    def session(self, **proof):
        answer = json.loads(self.allowed(self.https("/session", **proof)))
        return answer["body"]["base"], answer["cookie"]

    def test_https_needs_a_valid_proof(self):
        index = "/api/index.json"
        for proof in ({"token": "token"}, {"token": "viewer.token"}, {"certificate": "alice"}):
            with self.subTest(proof=proof):
                self.assertIn(self.capture, self.allowed(self.https(index, **proof)))
        for proof, sentence in (({}, "proves no user"), ({"token": "other"}, "wrong token"), ({"token": "expired.token"}, "has expired"),
                                ({"token": "changed.token"}, "did not sign"), ({"token": "other_secret.token"}, "did not sign"),
                                ({"certificate": "revoked/alice"}, "has been revoked"), ({"certificate": "expired"}, "expired on"),
                                ({"certificate": "a"}, "proves no user"), ({"certificate": "forged/alice"}, "")):
            with self.subTest(proof=proof):
                self.refused(self.https(index, **proof), sentence)

    def test_https_shows_captures_only_to_those_who_may(self):
        page = f"/captures/{self.capture}/report.json"
        for proof, sentence in (({"certificate": "bob"}, "is user 12001's"), ({"token": "other_job.token"}, "your token is for job others"),
                                ({"token": "other_user.token"}, "your token is for job alices")):
            with self.subTest(proof=proof):
                self.assertNotIn(self.capture, self.allowed(self.https("/api/index.json", **proof)))
                self.refused(self.https(page, **proof), sentence)
        base, cookie = self.session(certificate="bob")
        self.refused(self.https(base[:-1] + page, cookie=cookie), "is user 12001's")
        for proof in ({"certificate": "alice"}, {"certificate": "carol"}, {"certificate": "dave"}, {"token": "viewer.token"}, {"token": "token"}):
            with self.subTest(proof=proof):
                self.allowed(self.https(page, **proof))
                base, cookie = self.session(**proof)
                self.allowed(self.https(base[:-1] + page, cookie=cookie))
        self.refused(self.https(base[:-1] + page), "proves no user")
        self.refused(self.https(page, cookie=cookie), "proves no user")
        self.refused(self.https("/s/" + "0" * 64 + page, cookie=cookie), "proves no user")

    def test_https_metrics_are_for_those_who_may_see_all(self):
        for proof in ({"certificate": "alice"}, {"token": "operator.token"}):
            with self.subTest(proof=proof):
                self.refused(self.https("/metrics", **proof), "metrics show all users' jobs")
        for proof in ({"certificate": "carol"}, {"token": "token"}):
            with self.subTest(proof=proof):
                self.assertIn("lockstep_aggregator_daemons", self.allowed(self.https("/metrics", **proof)))
        # A supervisor may ask for the health with any valid proof.
        for user, flags in (("alice", f"--tls-dir {SITE}/alice"), ("root", f"--tls-dir {SITE}/aggregator --token-file /etc/token")):
            self.assertIn("ok daemons=1", self.head.sh(user, f"lockstep health 127.0.0.1:{HTTPS} --tls {flags}").stdout)

    def test_http_on_loopback_answers_only_its_own_name(self):
        for path in ("/", "/api/index.json"):
            self.refused(self.https(path, token="token", port=9466, host="evil.example"), "answers only requests for 127.0.0.1")
            self.allowed(self.https(path, token="token", port=9466))

    def test_https_is_never_plaintext(self):
        done = self.root(f"curl -s http://{HEAD}:{HTTPS}/", check=False)
        self.assertEqual(done.stdout, "")

    # ---- The node's sockets

    def test_socket_captures_only_for_those_who_may(self):
        window = "trace --duration 500ms --force -o local"
        self.refused(self.grpc("carol", f"{window} --job carols", node=self.node), "--operators do not include you")
        for who, job in (("alice", "alices"), ("dave", "alices"), ("dave", "carols"), ("root", "carols")):
            with self.subTest(who=who):
                self.allowed(self.grpc(who, f"{window} --job {job}", node=self.node, user=who))
        # Ranks of other users do not exist for a user.
        for what in ("--job alices", f"--pid {self.pid}"):
            succeeded, text = self.grpc("bob", f"{window} {what}", node=self.node)()
            self.assertFalse(succeeded, text)
        for who, expected in (("alice", {"alices"}), ("bob", set()), ("carol", {"alices", "carols"}), ("dave", {"alices", "carols"})):
            with self.subTest(who=who):
                shown = self.allowed(self.grpc(who, "status --format json", node=self.node))
                self.assertEqual({rank["job"] for rank in cluster.ranks_of(shown)}, expected)

    def test_socket_lets_only_the_scheduler_announce_jobs(self):
        begin = "job begin --id 77 --uid 12001"
        self.refused(self.grpc("bob", begin, node=self.node), "only root and user 0 may report jobs")


HTTP_CLIENT = """\
import http.client, json, ssl
if port == 9465:
    context = ssl.create_default_context(cafile='/etc/lockstep/aggregator/ca.crt')
    if certificate:
        context.load_cert_chain(f'/etc/lockstep/{certificate}/tls.crt', f'/etc/lockstep/{certificate}/tls.key')
    connection = http.client.HTTPSConnection('lockstep', port, context=context)
    import socket
    raw = socket.create_connection(('10.79.0.1', port))
    connection.sock = context.wrap_socket(raw, server_hostname='lockstep')
else:
    connection = http.client.HTTPConnection('127.0.0.1', port)
connection.request('GET', path, headers=headers)
answer = connection.getresponse()
body = answer.read().decode()
print(answer.status)
cookie = answer.headers.get('Set-Cookie')
print(json.dumps({'body': json.loads(body), 'cookie': cookie.split(';')[0]}) if cookie else body)
"""


if __name__ == "__main__":
    cluster.enter()
    unittest.main(argv=sys.argv[:1])
