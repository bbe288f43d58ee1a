"""dashboard_test.py WORK: checks deploy/grafana/lockstep.json by the types of Grafana's own schema, @grafana/schema.
tests/e2e/metrics_test.py checks that its metrics exist."""
import json
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "support"))
import npm_packages  # noqa: E402

WORK = pathlib.Path(sys.argv.pop(1)).resolve()
DASHBOARD = REPOSITORY / "deploy/grafana/lockstep.json"
TYPES = WORK / "node_modules/@grafana/schema/dist/types/raw/dashboard/x/types.gen.d.ts"


def errors_of(dashboard: dict, name: str) -> str:
    """Returns what TypeScript says of the dashboard; empty: it fits the schema."""
    folder = WORK / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dashboard.json").write_text(json.dumps(dashboard, indent=2))
    subprocess.run(["node", HERE / "as_typescript.mjs", TYPES, folder / "dashboard.json", folder], check=True)
    compiled = subprocess.run(["node", WORK / "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--skipLibCheck",
                               folder / "dashboard.ts"], capture_output=True, text=True)
    return compiled.stdout + compiled.stderr


class GrafanasSchema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        npm_packages.install(HERE, WORK)
        cls.dashboard = json.loads(DASHBOARD.read_text())

    def test_the_dashboard_fits(self):
        self.assertEqual(errors_of(self.dashboard, "whole"), "")

    def test_an_unknown_member_and_a_missing_one_are_found(self):
        self.assertRegex(errors_of(self.dashboard | {"colour": "red"}, "unknown"), "colour.* does not exist in type 'Dashboard'")
        without = {key: value for key, value in self.dashboard.items() if key != "schemaVersion"}
        self.assertIn("'schemaVersion' is missing", errors_of(without, "missing"))
        self.assertIn("not assignable", errors_of(self.dashboard | {"graphTooltip": 7}, "value"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
