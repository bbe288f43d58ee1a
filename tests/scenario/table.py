"""The table of an evaluation: each metric with its 95 % interval, its floor ("ship") and its aim
("moonshot")."""
import collections
import math
import random

DRAWS = 400  # of jobs, for intervals of figures other than shares and quantiles
Z = 1.96


def quantile(values, q):
    """Returns the value at share `q` of the sorted values (nearest rank)."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, max(0, -(-int(q * 1000 * len(ordered)) // 1000) - 1))]


def share_interval(values):
    """Returns Wilson's interval of a share."""
    n = len(values)
    if not n:
        return None
    p = sum(values) / n
    middle, half = p + Z * Z / (2 * n), Z * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    return ((middle - half) / (1 + Z * Z / n), (middle + half) / (1 + Z * Z / n))


def quantile_interval(values, q):
    """Returns the values whose places in the sorted list enclose the quantile (normal approximation of the
    binomial distribution)."""
    ordered = sorted(values)
    n = len(ordered)
    if n < 2:
        return None
    half = Z * math.sqrt(n * q * (1 - q))
    return (ordered[max(0, math.floor(n * q - half) - 1)], ordered[min(n - 1, math.ceil(n * q + half) - 1)])


def drawn_interval(results, figure):
    """Returns the interval of figure(results) over jobs drawn with replacement."""
    draw = random.Random(1)
    figures = sorted(f for f in (figure(draw.choices(results, k=len(results))) for _ in range(DRAWS)) if f is not None)
    return (figures[int(0.025 * len(figures))], figures[int(0.975 * len(figures))]) if figures else None


def rank_f1(results):
    """Precision counts the jobs in which the report names a rank first. Recall counts all of these jobs."""
    named = [r for r in results if r["named"]]
    right = sum(r["right_place"] for r in results)
    if not results or right == 0:
        return 0.0 if results else None
    precision, recall = right / len(named), right / len(results)
    return 2 * precision * recall / (precision + recall)


def macro_f1(results):
    """Returns (mean of the classes' F1, {class: F1})."""
    classes = sorted({r["cause"] for r in results})
    scores = {}
    for c in classes:
        true = sum(r["cause"] == c == r["predicted"] for r in results)
        predicted, real = sum(r["predicted"] == c for r in results), sum(r["cause"] == c for r in results)
        scores[c] = 2 * true / (predicted + real) if predicted + real else 0.0
    return (sum(scores.values()) / len(scores) if scores else None), scores


def _placed(r):
    return r["faults"] and r["faults"][0][3] in ("rank", "host", "stage", "group")


class Row:
    def __init__(self, name, value, ship, moonshot, count, higher=True, form="{:.3f}", interval=None):
        self.name, self.value, self.ship, self.moonshot, self.count, self.higher, self.form = name, value, ship, moonshot, count, higher, form
        self.interval = interval

    def reaches(self, gate):
        if self.value is None or gate is None:
            return None
        return self.value >= gate if self.higher else self.value <= gate

    def text(self):
        def shown(v):
            return "-" if v is None else self.form.format(v)
        sign = ">=" if self.higher else "<="
        state = {None: "", True: "ok", False: "BELOW"}[self.reaches(self.ship)]
        if self.reaches(self.moonshot):
            state = "aim"
        gate = lambda v: "-" if v is None else f"{sign} {shown(v)}"
        interval = "-" if self.interval is None else f"{shown(self.interval[0])}..{shown(self.interval[1])}"
        return f"{self.name:58} {shown(self.value):>8} {interval:>15} {gate(self.ship):>10} {gate(self.moonshot):>10} {self.count:>7}  {state}".rstrip()


def _f1_row(name, of, ship, moonshot):
    # Wilson's interval of the recall: drawing jobs that are all right would give no interval.
    return Row(name, rank_f1(of), ship, moonshot, len(of), interval=share_interval([r["right_place"] for r in of]))


def _share_row(name, values, ship, moonshot, higher=True):
    return Row(name, sum(values) / len(values), ship, moonshot, len(values), higher, interval=share_interval(values))


def _quantile_row(name, values, q, ship, moonshot, form="{:.3f}"):
    return Row(name, quantile(values, q), ship, moonshot, len(values), False, form, quantile_interval(values, q))


def rows(results):
    good = [r for r in results if not r["failed"]]
    group = lambda *names: [r for r in good if r["group"] in names]
    out = []
    judged = group("small", "thousand", "pairs")
    visible = [r for r in judged if _placed(r) and len(r["faults"]) == 1 and r["effect"] >= 0.03]
    for name, of in (("8-64 ranks", [r for r in visible if r["ranks"] <= 64]), ("64 ranks", [r for r in visible if r["ranks"] == 64]),
                     ("1,024 ranks", [r for r in visible if r["ranks"] == 1024]), ("10,000 ranks", [r for r in visible if r["ranks"] == 10000])):
        if of:
            ten = name.startswith("10,")
            out.append(_f1_row(f"rank F1, effect >= 3 % of the step, {name}", of, None if ten else 0.95, 0.95 if ten else 0.98))
    faint = [r for r in judged if _placed(r) and len(r["faults"]) == 1 and 0.02 <= r["effect"] < 0.03]
    for name, of in (("8-64 ranks", [r for r in faint if r["ranks"] <= 64]), ("1,024 ranks", [r for r in faint if r["ranks"] == 1024])):
        if of:
            out.append(_f1_row(f"rank F1, effect 2-3 %, {name}", of, None, 0.98))
    two = [r for r in group("small", "two") if r["both"] is not None and min(r["alone"]) >= 0.03]
    if two:
        out.append(_share_row("both of two faults named, each >= 3 % alone", [r["both"] for r in two], None, 0.9))
        sets = [r["set_error"] for r in two if r.get("set_error") is not None]
        if sets:
            out.append(_quantile_row("gain of fixing both, relative error, median", sets, 0.5, None, None))
    causes = [r for r in group("small", "healthy") if not r["faults"] or r["effect"] >= 0.03]
    if causes:
        figure = lambda of: macro_f1(of)[0]
        out.append(Row(f"cause macro-F1, effect >= 3 % ({len({r['cause'] for r in causes})} classes)", figure(causes), 0.85, 0.95, len(causes),
                       interval=drawn_interval(causes, figure)))
    sure = [s for r in group("small", "thousand", "pairs", "healthy", "two") for s in r["sure"]]
    if sure:
        out.append(_share_row("entries called sure: place and cause right", sure, None, 0.98))
    well = group("healthy", "clocks") + [r for r in group("matching") if not r["faults"]]
    if well:
        out.append(_share_row("healthy jobs called bad", [r["believed"] > 0 for r in well], 0.01, 0.01, False))
    errors = [r["gain_error"] for r in group("small", "thousand") if r["gain_error"] is not None and r["effect"] >= 0.03]
    if errors:
        out.append(_quantile_row("culprit's ms per step, relative error, median", errors, 0.5, 0.05, 0.03))
        out.append(_quantile_row("culprit's ms per step, relative error, p95", errors, 0.95, None, 0.10))
    sums = [r["additivity"] for r in good if r.get("additivity") is not None]
    if sums:
        out.append(Row("additivity: |sum of the parts - lost| / lost, worst", max(sums), 1e-3, 1e-6, len(sums), False, "{:.1e}"))
    steps = [abs(r["step_error"]) for r in good if r.get("step_error") is not None and r["group"] not in ("clocks", "matching")]
    if steps:
        out.append(_quantile_row("step time against the truth, relative error, p99", steps, 0.99, 1e-3, None, "{:.1e}"))
    pairs = [r for r in group("pairs") if r["effect"] >= 0.02]
    gains = [r["gain_error"] for r in pairs if r["gain_error"] is not None]
    if gains:
        out.append(_quantile_row("predicted gain of a fix, relative error, median", gains, 0.5, 0.03, 0.01))
        out.append(_quantile_row("predicted gain of a fix, relative error, p90", gains, 0.9, 0.08, 0.03))
    clocks = [r for r in group("clocks") if r["clock_ms"] == 1.0 and not r["stepped"]]
    waits = [e / 1e3 for r in clocks for e in r["errors"]]
    if waits:
        out.append(_quantile_row("wait/transfer split under 1 ms clocks, error p99 (us)", waits, 0.99, 20.0, 5.0, "{:.2f}"))
    bounds = [r for r in good if r["bounds"]]
    if bounds:
        hosts = sum(r["bounds"] for r in bounds)
        out.append(Row("clock bounds violated, hosts", sum(r["broken_bounds"] for r in bounds), 0, 0, hosts, False, "{:.0f}"))
        out.append(Row("clock error, p99 over jobs (us)", quantile([r["clock_error"] for r in bounds], 0.99) / 1e3, None, None, len(bounds), False, "{:.2f}"))
    for name, of in (("names only", [r for r in group("matching") if r["metadata"] == "none"]), ("2 % of records lost", [r for r in group("matching") if r["loss"] > 0])):
        possible = sum(r["possible"] for r in of)
        if possible:
            out.append(Row(f"match rate, {name}", sum(r["right"] for r in of) / possible, 0.99, 0.999, possible, True, "{:.4f}"))
            out.append(Row(f"wrong matches, {name}", sum(r["wrong"] for r in of) / possible, None, 1e-5, possible, False, "{:.1e}"))
    lone = group("links")
    if lone:
        out.append(_share_row("slow link of the only group: named or not judged", [bool(r["right_place"] or r["links_not_judged"]) for r in lone], 1.0, 1.0))
    for r in group("speed"):
        out.append(Row(f"analysis of one step of {r['ranks']:,} ranks (ms)", r["analyze_ms"] / r["steps"], None, 100.0 if r["ranks"] == 1024 else 1000.0, 1, False, "{:.0f}"))
        out.append(Row(f"reading the timeline of {r['ranks']:,} ranks x {r['steps']} steps (ms)", r["read_ms"], None, None, 1, False, "{:.0f}"))
    return out


def confusion(results):
    causes = [r for r in results if not r["failed"] and r["group"] in ("small", "healthy") and (not r["faults"] or r["effect"] >= 0.03)]
    if not causes:
        return ""
    _, scores = macro_f1(causes)
    counts = collections.defaultdict(collections.Counter)
    for r in causes:
        counts[r["cause"]][r["predicted"]] += 1
    lines = ["", "true cause           F1   what the report says first"]
    for cause in sorted(counts):
        predicted = ", ".join(f"{name} {n}" for name, n in counts[cause].most_common())
        lines.append(f"{cause:19} {scores[cause]:.2f}  {predicted}")
    return "\n".join(lines)


def table(results):
    head = f"{'metric':58} {'measured':>8} {'95 % interval':>15} {'ship':>10} {'moonshot':>10} {'n':>7}"
    return "\n".join([head, "-" * len(head), *(r.text() for r in rows(results))]) + "\n" + confusion(results)


def floors_hold(results):
    return all(r.reaches(r.ship) is not False for r in rows(results))
