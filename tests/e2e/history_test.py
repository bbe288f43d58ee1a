"""Keeps captures of a job in a history and finds when the job became slower, with SQLite, and with a PostgreSQL server that
this test starts. Both must give the same answers. DuckDB reads the exported tables.

usage: history_test.py BIN [sqlite|postgresql|duckdb MODULES]"""
import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import sqlite3
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import npm_packages  # noqa: E402
import postgresql_server  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
LOCKSTEP = BIN / "lockstep"
FIRST_DAY = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.timezone.utc)
CAPTURES, SLOWER_FROM = 20, 12
NOISE = (0, 0.002, -0.003, 0.001, -0.001)


def generated(folder, name, *fault):
    """Returns the report of a generated job."""
    subprocess.run([sys.executable, ROOT / "tests/scenario/generate.py", "-o", folder / f"{name}.timeline", "--topology", "hybrid", "--ranks",
                    "8", "--steps", "8", "--seed", "3", *fault], check=True, timeout=120, capture_output=True)
    done = subprocess.run([LOCKSTEP, "analyze", folder / f"{name}.timeline", "--format", "json"], check=True, timeout=120, capture_output=True)
    return json.loads(done.stdout)


def of_day(report, day):
    """Returns the report as if the job had run on that day, a little faster or slower."""
    report = json.loads(json.dumps(report))
    begin = FIRST_DAY + datetime.timedelta(days=day)
    report["capture"].update(id=f"{begin:%Y%m%d-%H%M%S}-{day:06x}", source="live", start_unix_ns=int(begin.timestamp()) * 10**9)
    for step in report["steps"]:
        step["duration_ns"] = round(step["duration_ns"] * (1 + NOISE[day % len(NOISE)]))
    return report


def plain(cell):
    """Returns a cell in a form that compares. DuckDB gives integers of 64 bits as texts, and whole numbers without a point."""
    if isinstance(cell, str) and re.fullmatch(r"-?\d+", cell):
        return int(cell)
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


class Reports:
    """Folders of captures, of a job whose GPU 3 is slower from one day on. They are made once."""

    def __init__(self):
        self.work = tempfile.TemporaryDirectory(prefix="lk-history-")
        self.folder = pathlib.Path(self.work.name)
        healthy, slow = generated(self.folder, "healthy"), generated(self.folder, "slow", "--fault", "slow_gpu:0.3")
        self.culprit = slow["stragglers"][0]
        self.captures = []
        for day in range(CAPTURES):
            report = of_day(slow if day >= SLOWER_FROM else healthy, day)
            folder = self.folder / report["capture"]["id"]
            folder.mkdir()
            (folder / "report.json").write_text(json.dumps(report))
            self.captures.append(folder)


class History:
    """The tests of both engines. A class with it has `place`, the database, and `environment`."""

    @classmethod
    def setUpClass(cls):
        cls.reports = Reports()
        cls.addClassCleanup(cls.reports.work.cleanup)

    def setUp(self):
        work = tempfile.TemporaryDirectory(prefix="lk-history-home-")
        self.addCleanup(work.cleanup)
        self.home = pathlib.Path(work.name)
        self.use_new_database()

    def run_cli(self, *words, code=0, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("LOCKSTEP_", "PG", "XDG_"))}
        environment |= {"HOME": str(self.home), "LOCKSTEP_HISTORY": self.place, **self.environment, **variables}
        done = subprocess.run([LOCKSTEP, "history", *map(str, words)], capture_output=True, text=True, timeout=120, env=environment)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}{done.stderr}")
        self.assertNotIn(postgresql_server.PASSWORD, done.stdout + done.stderr)
        return done.stdout if code == 0 or done.stdout else done.stderr

    def json_of(self, *words):
        document = json.loads(self.run_cli(*words, "--format", "json"))
        self.assertEqual(document["schema"], "lockstep.history/1")
        return document

    def add_all(self):
        for day, folder in enumerate(self.reports.captures):
            self.run_cli("add", folder, "--job", "llama", "--label", f"commit={'1f3c9a2' if day < SLOWER_FROM else '8e41d07'}")

    def test_finds_when_the_job_became_slower_and_names_commit_and_host(self):
        self.add_all()
        document = self.json_of("trend", "llama")
        self.assertEqual(len(document["points"]), CAPTURES)
        self.assertEqual(len(document["changes"]), 1, document["changes"])
        change = document["changes"][0]
        self.assertEqual(change["capture"], self.reports.captures[SLOWER_FROM].name)
        self.assertEqual(change["last_capture_before"], self.reports.captures[SLOWER_FROM - 1].name)
        self.assertTrue(change["worse"])
        self.assertLess(change["probability"], 0.01)
        suspects = {suspect["kind"]: suspect for suspect in change["suspects"]}
        self.assertEqual((suspects["label"]["before"], suspects["label"]["after"]), ("1f3c9a2", "8e41d07"))
        self.assertEqual(suspects["culprit"]["after"], self.reports.culprit["hosts"][0])
        self.assertEqual(suspects["culprit"]["cause"], self.reports.culprit["cause"])
        self.assertEqual(suspects["culprit"]["captures_after"], CAPTURES - SLOWER_FROM)
        text = self.run_cli("trend", "llama")
        print(text)
        self.assertIn("SLOWER since 2026-03-13 12:00 UTC", text)
        self.run_cli("trend", "llama", "--exit-code", code=3)
        self.assertEqual(self.json_of("trend", "llama", "--metric", "load_balance")["changes"][0]["capture"], change["capture"])
        self.assertEqual(self.json_of("trend", "llama", "--since", "2026-03-13")["changes"], [])

    def test_lists_shows_and_compares_what_was_added(self):
        self.add_all()
        self.run_cli("add", self.reports.captures[0].parent / "slow.timeline")
        jobs = self.json_of("list")["jobs"]
        self.assertEqual({job["job"]: job["captures"] for job in jobs}, {"llama": CAPTURES, "generated-3": 1})
        self.assertEqual([job["job"] for job in self.json_of("list", "--job", "lam")["jobs"]], ["llama"])
        captures = self.json_of("show", "llama", "--limit", "3")["captures"]
        self.assertEqual([capture["capture"] for capture in captures], [f.name for f in self.reports.captures[:-4:-1]])
        first, last = self.reports.captures[0].name, self.reports.captures[-1].name
        report = json.loads((self.reports.captures[-1] / "report.json").read_text())
        shown = self.json_of("show", last)
        self.assertEqual(shown["verdict"], report["verdict"])
        self.assertEqual([step["duration_ns"] for step in shown["steps"]], [step["duration_ns"] for step in report["steps"]])
        self.assertEqual([rank["host"] for rank in shown["ranks"]], [rank["host"] for rank in report["ranks"]])
        self.assertEqual(shown["findings"][0]["gain_ns_per_step"], report["stragglers"][0]["gain_ns_per_step"])
        self.assertEqual(shown["labels"], [{"name": "commit", "value": "8e41d07"}])
        comparison = self.json_of("compare", first, last)
        new = [finding for finding in comparison["findings"] if finding["captures_a"] == 0]
        self.assertIn(self.reports.culprit["cause"], [finding["cause"] for finding in new])
        self.assertIn("new", self.run_cli("compare", first, "llama"))

    def test_adding_twice_replaces(self):
        folder = self.reports.captures[0]
        self.assertIn("added", self.run_cli("add", folder, "--label", "commit=a"))
        before = self.json_of("show", folder.name)
        self.assertIn("replaced", self.run_cli("add", folder / "report.json", "--label", "commit=b"))
        after = self.json_of("show", folder.name)
        self.assertEqual(after["labels"], [{"name": "commit", "value": "b"}])
        for document in (before, after):
            del document["added_unix_ns"], document["labels"]
        self.assertEqual(before, after)

    def test_programs_that_add_at_the_same_time_wait(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda folder: self.run_cli("add", folder, "--job", "llama"), self.reports.captures))
        self.assertEqual(self.json_of("list")["jobs"][0]["captures"], CAPTURES)

    def test_prune_removes_only_what_its_rule_says(self):
        self.add_all()
        self.run_cli("prune", code=2)
        self.assertIn(f"would remove {CAPTURES - 5} captures", self.run_cli("prune", "--keep-captures", "5", "--dry-run"))
        self.assertEqual(len(self.json_of("show", "llama")["captures"]), CAPTURES)
        removed = self.json_of("prune", "--keep-captures", "5")["captures"]
        self.assertEqual([capture["capture"] for capture in removed], [f.name for f in self.reports.captures[:-5]])
        self.assertEqual(len(self.json_of("show", "llama")["captures"]), 5)
        self.assertEqual(self.json_of("prune", "--keep-days", "36500")["captures"], [])
        self.run_cli("show", self.reports.captures[0].name, code=4)

    def test_a_bad_input_does_not_keep_the_others_out(self):
        bad = self.home / "bad"
        bad.mkdir()
        (bad / "report.json").write_text('{"schema": "lockstep.report/2"}')
        self.assertIn("bad/report.json has the schema lockstep.report/2", self.run_cli("add", bad, "--job", "x", code=2))
        self.run_cli("add", bad, self.reports.captures[0], "--job", "llama", code=2)
        self.assertEqual(len(self.json_of("show", "llama")["captures"]), 1)
        self.run_cli("add", self.home / "nothing", code=4)
        self.run_cli("add", self.reports.captures[0], "--label", "commit", code=2)

    def test_a_history_that_does_not_exist_is_not_created_by_a_reader(self):
        for words in (("list",), ("show", "x"), ("trend", "x"), ("compare", "a", "b"), ("prune", "--keep-days", "1")):
            self.assertIn("has no history yet", self.run_cli(*words, code=4))


class Sqlite(History, unittest.TestCase):
    environment = {}

    def use_new_database(self):
        self.place = str(self.home / "data/lockstep/history.db")

    def test_the_file_is_in_the_data_folder_and_closed_to_others(self):
        self.run_cli("add", self.reports.captures[0], LOCKSTEP_HISTORY="")
        path = self.home / ".local/share/lockstep/history.db"
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.run_cli("add", self.reports.captures[0], LOCKSTEP_HISTORY="", XDG_DATA_HOME=str(self.home / "xdg"))
        self.assertTrue((self.home / "xdg/lockstep/history.db").exists())

    def test_a_newer_schema_is_refused(self):
        self.run_cli("add", self.reports.captures[0])
        with sqlite3.connect(self.place) as database:
            database.execute("INSERT INTO schema_versions VALUES (9, 0)")
        for words in (("list",), ("add", self.reports.captures[0])):
            self.assertIn("version 9", self.run_cli(*words, code=1))


class Postgresql(History, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = postgresql_server.PostgresqlServer()
        cls.addClassCleanup(cls.server.close)
        cls.environment, cls.place = cls.server.environment, cls.server.url()

    def use_new_database(self):
        self.server.sql("DROP SCHEMA IF EXISTS lockstep CASCADE")

    def test_store_of_the_unit_tests(self):
        program = BIN / "lockstep_history_test"
        if not program.exists():
            self.skipTest(f"{program} is not built")
        done = subprocess.run([program, "--gtest_filter=HistoryStoreTest.*:SchemaTest.*:DatabasesTest.Without*"], text=True, capture_output=True,
                              timeout=300, env={**os.environ, **self.environment, "LOCKSTEP_TEST_DATABASE": self.place})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_both_engines_give_the_same_answers(self):
        sqlite_place = str(self.home / "history.db")
        for place in (sqlite_place, self.place):
            for day, folder in enumerate(self.reports.captures):
                self.run_cli("add", folder, "--job", "llama", "--label", f"day={day}", LOCKSTEP_HISTORY=place)
        for words in (("trend", "llama"), ("show", "llama"), ("show", self.reports.captures[-1].name), ("list",),
                      ("compare", "llama", self.reports.captures[0].name), ("trend", "llama", "--format", "json"),
                      ("compare", "llama", self.reports.captures[0].name, "--format", "json")):
            self.assertEqual(self.run_cli(*words, LOCKSTEP_HISTORY=sqlite_place), self.run_cli(*words), words)

    def test_a_user_with_the_right_to_read_cannot_write(self):
        self.run_cli("add", self.reports.captures[0], "--job", "llama")
        self.server.sql("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN PASSWORD 'r'; GRANT USAGE ON SCHEMA lockstep TO reader; "
                        "GRANT SELECT ON ALL TABLES IN SCHEMA lockstep TO reader")
        self.addCleanup(self.server.sql, "DROP OWNED BY reader; DROP ROLE reader")
        reader = {"PGPASSFILE": str(self.server.password_file("reader", "r")), "LOCKSTEP_HISTORY": self.server.url("reader")}
        self.assertIn("llama", self.run_cli("list", **reader))
        self.assertIn("permission denied", self.run_cli("add", self.reports.captures[1], code=1, **reader))

    def test_a_password_in_the_url_is_refused(self):
        for url in (f"postgresql://lockstep:hidden@/postgres?host={self.server.folder}", f"{self.place}&password=hidden"):
            error = self.run_cli("list", "--db", url, code=2)
            self.assertIn("PGPASSFILE", error)
            self.assertNotIn("hidden", error)

    def test_a_wrong_password_and_a_stopped_server_are_named(self):
        self.assertIn("password authentication failed",
                      self.run_cli("list", code=1, PGPASSFILE=str(self.server.password_file("lockstep", "wrong"))))
        self.server.password_file(postgresql_server.USER, postgresql_server.PASSWORD)
        self.run_cli("add", self.reports.captures[0])
        self.server.stop()
        try:
            self.assertIn("cannot connect to postgresql://", self.run_cli("list", code=1))
        finally:
            self.server.start()
        self.assertIn("generated", self.run_cli("list"))

    def test_what_is_stored_is_open_to_sql(self):
        self.add_all()
        found = self.server.sql("SELECT f.host, count(DISTINCT f.capture) FROM lockstep.finding_ranks f JOIN lockstep.findings USING (capture, place) "
                                "WHERE list = 'stragglers' GROUP BY f.host")
        self.assertEqual(found, f"{self.reports.culprit['hosts'][0]}|{CAPTURES - SLOWER_FROM}\n")


class DuckDb(unittest.TestCase):
    """Reads the exported Parquet with DuckDB, and compares it with the database, which Python reads."""

    def setUp(self):
        reports = Reports()
        self.addCleanup(reports.work.cleanup)
        npm_packages.install(ROOT / "tests/recipes", MODULES)
        self.folder = reports.folder
        self.culprit = reports.culprit
        for day, folder in enumerate(reports.captures):
            # Two months, because the first capture is of the 1st of March.
            self.run_cli("add", folder, "--job", "llama", "--label", f"commit={'1f3c9a2' if day < SLOWER_FROM else '8e41d07'}")
        april = of_day(json.loads((reports.captures[-1] / "report.json").read_text()), 40)
        (self.folder / "april.json").write_text(json.dumps(april))
        self.run_cli("add", "april.json", "--job", "llama")

    def run_cli(self, *words):
        done = subprocess.run([LOCKSTEP, "history", *words, "--db", "history.db"], cwd=self.folder, capture_output=True, text=True, timeout=120,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def duckdb(self, queries):
        done = subprocess.run(["node", ROOT / "tests/recipes/run_sql.mjs", MODULES / "node_modules"], cwd=self.folder, text=True,
                              input=json.dumps({"queries": queries, "files": []}), capture_output=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = json.loads(done.stdout)["answers"]
        for query, answer in zip(queries, answers):
            self.assertNotIn("error", answer, query)
        return answers

    def test_every_cell_is_the_database_s(self):
        self.assertIn(f"{CAPTURES + 1} captures in 12 files", self.run_cli("export", "lake"))
        months = sorted(path.parent.name for path in self.folder.glob("lake/captures/*/data.parquet"))
        self.assertEqual(months, ["month=2026-03", "month=2026-04"])
        cells = 0
        with sqlite3.connect(self.folder / "history.db") as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'schema_versions'")]
            self.assertEqual(len(tables), 6)
            answers = self.duckdb([f"SELECT * EXCLUDE (month) FROM read_parquet('lake/{table}/**/*.parquet', hive_partitioning = true) ORDER BY ALL"
                                   for table in tables])
            for table, answer in zip(tables, answers):
                columns = ", ".join(answer["columns"])
                wanted = database.execute(f"SELECT {columns} FROM {table}").fetchall()
                self.assertEqual(len(answer["columns"]), len(database.execute(f"SELECT * FROM {table}").description), table)
                got, wanted = ([[plain(cell) for cell in row] for row in rows] for rows in (answer["rows"], wanted))
                self.assertEqual(sorted(got, key=repr), sorted(wanted, key=repr), table)
                cells += sum(map(len, got))
        print(f"compared {cells} cells")
        self.assertGreater(cells, 3000)

    def test_the_examples_of_the_page_run(self):
        self.run_cli("export", "lake")
        queries = re.findall(r"^```sql\n(.*?)^```$", (ROOT / "docs/history.md").read_text(), re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(queries), 2)
        for query, answer in zip(queries, self.duckdb(queries)):
            self.assertGreater(len(answer["rows"]), 0, query)


if __name__ == "__main__":
    engines = {"sqlite": Sqlite, "postgresql": Postgresql, "duckdb": DuckDb}
    engine = sys.argv.pop(1) if len(sys.argv) > 1 and sys.argv[1] in engines else "sqlite"
    if engine == "duckdb":
        MODULES = pathlib.Path(sys.argv.pop(1)).resolve()
    if engine == "postgresql" and postgresql_server.folder_of_programs() is None:
        print("not tested: no PostgreSQL server is installed (Debian's postgresql)")
        sys.exit(77)
    unittest.main(verbosity=2, argv=sys.argv[:1] + (sys.argv[1:] or [engines[engine].__name__]))
