"""The table of an evaluation: each metric with its floor ("ship") and its aim ("moonshot")."""
import collections


def quantile(values, q):
    """Returns the value at share `q` of the sorted values (nearest rank)."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, max(0, -(-int(q * 1000 * len(ordered)) // 1000) - 1))]


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
    def __init__(self, name, value, ship, moonshot, count, higher=True, form="{:.3f}"):
        self.name, self.value, self.ship, self.moonshot, self.count, self.higher, self.form = name, value, ship, moonshot, count, higher, form

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
        return f"{self.name:58} {shown(self.value):>10} {gate(self.ship):>11} {gate(self.moonshot):>11} {self.count:>7}  {state}"


def rows(results):
    good = [r for r in results if not r["failed"]]
    group = lambda *names: [r for r in good if r["group"] in names]
    out = []
    judged = group("small", "thousand", "pairs")
    visible = [r for r in judged if _placed(r) and len(r["faults"]) == 1 and r["effect"] >= 0.03]
    for name, of in (("8-64 ranks", [r for r in visible if r["ranks"] < 64 or r["ranks"] == 64]), ("64 ranks", [r for r in visible if r["ranks"] == 64]),
                     ("1,024 ranks", [r for r in visible if r["ranks"] == 1024]), ("10,000 ranks", [r for r in visible if r["ranks"] == 10000])):
        if of:
            ten = name.startswith("10,")
            out.append(Row(f"rank F1, effect >= 3 % of the step, {name}", rank_f1(of), None if ten else 0.95, 0.95 if ten else 0.98, len(of)))
    faint = [r for r in judged if _placed(r) and len(r["faults"]) == 1 and 0.02 <= r["effect"] < 0.03]
    for name, of in (("8-64 ranks", [r for r in faint if r["ranks"] <= 64]), ("1,024 ranks", [r for r in faint if r["ranks"] == 1024])):
        if of:
            out.append(Row(f"rank F1, effect 2-3 %, {name}", rank_f1(of), None, 0.98, len(of)))
    two = [r for r in group("small") if r["both"] is not None and r["effect"] >= 0.03]
    if two:
        out.append(Row("both of two faults named, effect >= 3 %", sum(r["both"] for r in two) / len(two), None, None, len(two)))
        sets = [r["set_error"] for r in two if r.get("set_error") is not None]
        if sets:
            out.append(Row("gain of fixing both, relative error, median", quantile(sets, 0.5), None, None, len(sets), False))
    causes = [r for r in group("small", "healthy") if not r["faults"] or r["effect"] >= 0.03]
    if causes:
        out.append(Row(f"cause macro-F1, effect >= 3 % ({len({r['cause'] for r in causes})} classes)", macro_f1(causes)[0], 0.85, 0.95, len(causes)))
    sure = [s for r in group("small", "thousand", "pairs", "healthy") for s in r["sure"]]
    if sure:
        out.append(Row("entries called sure: place and cause right", sum(sure) / len(sure), None, 0.98, len(sure)))
    well = group("healthy", "clocks") + [r for r in group("matching") if not r["faults"]]
    if well:
        out.append(Row("healthy jobs called bad", sum(r["believed"] > 0 for r in well) / len(well), 0.01, 0.01, len(well), False))
    errors = [r["gain_error"] for r in group("small", "thousand") if r["gain_error"] is not None and r["effect"] >= 0.03]
    if errors:
        out.append(Row("culprit's ms per step, relative error, median", quantile(errors, 0.5), 0.05, 0.03, len(errors), False))
        out.append(Row("culprit's ms per step, relative error, p95", quantile(errors, 0.95), None, 0.10, len(errors), False))
    sums = [r["additivity"] for r in good if r.get("additivity") is not None]
    if sums:
        out.append(Row("additivity: |sum of the parts - lost| / lost, worst", max(sums), 1e-3, 1e-6, len(sums), False, "{:.1e}"))
    steps = [abs(r["step_error"]) for r in good if r.get("step_error") is not None and r["group"] not in ("clocks", "matching")]
    if steps:
        out.append(Row("step time against the truth, relative error, p99", quantile(steps, 0.99), 1e-3, None, len(steps), False, "{:.1e}"))
    pairs = [r for r in group("pairs") if r["effect"] >= 0.02]
    gains = [r["gain_error"] for r in pairs if r["gain_error"] is not None]
    if gains:
        out.append(Row("predicted gain of a fix, relative error, median", quantile(gains, 0.5), 0.03, 0.01, len(gains), False))
        out.append(Row("predicted gain of a fix, relative error, p90", quantile(gains, 0.9), 0.08, 0.03, len(gains), False))
    clocks = [r for r in group("clocks") if r["clock_ms"] == 1.0 and not r["stepped"]]
    waits = [e for r in clocks for e in r["errors"]]
    if waits:
        out.append(Row("wait/transfer split under 1 ms clocks, error p99 (us)", quantile(waits, 0.99) / 1e3, 20.0, 5.0, len(waits), False, "{:.2f}"))
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
    head = f"{'metric':58} {'measured':>10} {'ship':>11} {'moonshot':>11} {'n':>7}"
    return "\n".join([head, "-" * len(head), *(r.text() for r in rows(results))]) + "\n" + confusion(results)


def floors_hold(results):
    return all(r.reaches(r.ship) is not False for r in rows(results))
