"""Runs every query of docs/recipes.md on a generated job, in DuckDB and in pandas, and compares their answers. Reads
every Parquet table with DuckDB and with Polars, and compares each cell with the CSV."""
import csv
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import pandas

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import npm_packages  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
MODULES = pathlib.Path(sys.argv.pop(1)).resolve()
BLOCK = re.compile(r"^```(sql|python)( setup)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EVERY_STATEMENT = ROOT / "tests/golden/timeline/every_statement_v1.timeline"


def run(folder, *command):
    done = subprocess.run([str(word) for word in command], cwd=folder, text=True, capture_output=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def recipes():
    """Returns the lines that every Python example needs, and a list of (title, SQL, Python)."""
    text = (ROOT / "docs/recipes.md").read_text()
    setup, found = "", []
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        blocks = {language: code for language, kind, code in BLOCK.findall(section) if not kind}
        setup += "".join(code for _, kind, code in BLOCK.findall(section) if kind)
        if blocks:
            found.append((section.partition("\n")[0], blocks["sql"], blocks["python"]))
    return setup, found


def plain(value):
    """Returns a value of either program in a form that compares."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def order(row):
    """Sorts the rows of both programs alike, though the last digits of their doubles differ."""
    return [f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row]


def close(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return a == b


def of_csv(text, kind):
    """Returns a CSV cell as DuckDB gives it in JSON, with numbers as numbers."""
    if text is None:
        return None
    if kind.endswith("[]"):
        return json.loads(text)
    if kind == "bool":
        return {"true": True, "false": False}[text]
    return text if kind == "text" else float(text) if kind == "double" else int(text)


def of_parquet(value, kind):
    if value is None or kind.startswith(("text", "bool")):
        return value
    if isinstance(value, list):
        return [of_parquet(element, kind.removesuffix("[]")) for element in value]
    return float(value) if kind == "double" else int(value)


def as_double(value):
    """Returns an integer as Polars gives it to JavaScript."""
    if isinstance(value, list):
        return [as_double(element) for element in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def read_csv(path):
    """Reads a table, with None for null, which is an empty field without quotes."""
    # The csv module does not distinguish "" from nothing. A character that no name has stands for the former.
    text = re.sub(r'(?<=[,\n])""(?=[,\r])', '\x1a', path.read_text())
    rows = list(csv.reader(text.splitlines(keepends=True)))
    return rows[0], [[None if cell == "" else cell.replace("\x1a", "") for cell in row] for row in rows[1:]]


class Recipes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory(prefix="lk-recipes")
        cls.folder = folder = pathlib.Path(cls.work.name)
        npm_packages.install(ROOT / "tests/recipes", MODULES)
        for name, fault in (("before", ()), ("after", ("--fault", "slow_gpu:0.3"))):
            run(folder, sys.executable, ROOT / "tests/scenario/generate.py", "-o", f"{name}.timeline", "--topology", "hybrid",
                "--ranks", 8, "--steps", 8, "--seed", 3, *fault)
            run(folder, BIN / "lockstep", "export", f"{name}.timeline", "--format", "parquet", "--partition", "-o", "lake")
        for capture, form, output in (("after.timeline", "parquet", "parquet"), ("after.timeline", "csv", "csv"),
                                      ("before.timeline", "csv", "csv-before"), (EVERY_STATEMENT, "parquet", "every-parquet"),
                                      (EVERY_STATEMENT, "csv", "every-csv")):
            run(folder, BIN / "lockstep", "export", capture, "--format", form, "-o", output)
        cls.setup, cls.recipes = recipes()
        queries = [sql for _, sql, _ in cls.recipes] + cls.questions_to_the_lake()
        files = [str(path.relative_to(folder)) for name in ("parquet", "every-parquet") for path in sorted((folder / name).iterdir())]
        done = subprocess.run(["node", ROOT / "tests/recipes/run_sql.mjs", MODULES / "node_modules"], cwd=folder, text=True,
                              input=json.dumps({"queries": queries, "files": files}), capture_output=True, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        cls.found = json.loads(done.stdout)

    @classmethod
    def tearDownClass(cls):
        cls.work.cleanup()

    @classmethod
    def questions_to_the_lake(cls):
        lake = "read_parquet('lake/{}/**/*.parquet', hive_partitioning = true)"
        cls.with_ranks = ["collective_instances", "kernels", "device_activities", "api_calls", "ranges", "ranks"]
        return [f"SELECT count(*), count(DISTINCT rank), sum(rank) FROM {lake.format(table)} WHERE capture = 'after.timeline'"
                for table in cls.with_ranks] + [
            f"SELECT count(*) FROM {lake.format('kernels')} WHERE capture = 'before.timeline' AND rank = 3"]

    def test_pandas_agrees_with_duckdb(self):
        self.assertGreaterEqual(len(self.recipes), 10)
        for (title, _, code), answer in zip(self.recipes, self.found["answers"]):
            with self.subTest(title):
                self.assertNotIn("error", answer, answer)
                names = {}
                before = os.getcwd()
                os.chdir(self.folder)
                try:
                    exec(self.setup + code, names)  # pylint: disable=exec-used
                finally:
                    os.chdir(before)
                sql = sorted([[plain(cell) for cell in row] for row in answer["rows"]], key=order)
                other = sorted([[plain(cell) for cell in row] for row in names["result"].itertuples(index=False)], key=order)
                self.assertGreater(len(sql), 0)
                self.assertEqual(len(sql), len(other))
                for a, b in zip(sql, other):
                    self.assertTrue(len(a) == len(b) and all(map(close, a, b)), f"DuckDB {a}, pandas {b}")

    def test_duckdb_and_polars_read_every_cell(self):
        cells = 0
        for file, by_program in self.found["read"].items():
            parquet = pathlib.Path(file)
            header, rows = read_csv(self.folder / parquet.parent.name.replace("parquet", "csv") / f"{parquet.stem}.csv")
            kinds = self.kinds(parquet.parent.name.replace("parquet", "csv"), parquet.stem)
            for program, columns in by_program.items():
                self.assertEqual(list(columns), header, f"{program}, {file}")
                for place, name in enumerate(header):
                    wanted = [of_csv(row[place], kinds[name]) for row in rows]
                    got = columns[name]
                    if program == "polars":
                        wanted, got = [as_double(cell) for cell in wanted], [as_double(cell) for cell in got]
                    else:
                        got = [of_parquet(cell, kinds[name]) for cell in got]
                    self.assertEqual(got, wanted, f"{program}, {file}, {name}")
                    cells += len(got)
        print(f"compared {cells} cells", flush=True)
        self.assertGreater(cells, 100000)

    def kinds(self, folder, table):
        if table == "columns":
            return {"may_be_null": "bool"} | {name: "text" for name in ("table_name", "column_name", "type", "unit", "meaning")}
        _, rows = read_csv(self.folder / folder / "columns.csv")
        return {name: kind for of_table, name, kind, *_ in rows if of_table == table}

    def test_partitions_hold_the_rows_of_the_tables(self):
        answers = self.found["answers"][len(self.recipes):]
        for table, answer in zip(self.with_ranks, answers):
            self.assertNotIn("error", answer, answer)
            header, rows = read_csv(self.folder / "csv" / f"{table}.csv")
            ranks = [int(row[header.index("rank")]) for row in rows]
            self.assertEqual([int(cell) for cell in answer["rows"][0]], [len(ranks), len(set(ranks)), sum(ranks)], table)
        header, rows = read_csv(self.folder / "csv-before/kernels.csv")
        self.assertEqual(int(answers[-1]["rows"][0][0]), sum(row[header.index("rank")] == "3" for row in rows))

    def test_a_second_export_of_a_capture_needs_force(self):
        command = [BIN / "lockstep", "export", "after.timeline", "--format", "parquet", "--partition", "-o", "lake"]
        done = subprocess.run(command, cwd=self.folder, text=True, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("capture=after.timeline already exists", done.stderr)
        run(self.folder, *command, "--force", "--ranks", "0-3")
        self.assertEqual(len(list(self.folder.glob("lake/kernels/capture=after.timeline/rank=*"))), 4)
        self.assertEqual(len(list(self.folder.glob("lake/kernels/capture=before.timeline/rank=*"))), 8)

    def test_columns_are_not_keywords_of_duckdb(self):
        _, rows = read_csv(self.folder / "csv/columns.csv")
        self.assertEqual({name for _, name, *_ in rows} & set(self.found["keywords"]), set())
        self.assertIn("group", self.found["keywords"])


if __name__ == "__main__":
    print(f"pandas {pandas.__version__}", flush=True)
    unittest.main(argv=sys.argv[:1])
