"""Compares one report with the truth."""

BELIEVED = ("sure", "likely")


def _mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def _steps_of(report, truth):
    """Returns the indices, in the truth's lists, of the steps that the report used."""
    at = {number: i for i, number in enumerate(truth["steps"])}
    used = [at[s["step"]] for s in report["steps"] if s["step"] in at]
    return used or list(range(len(truth["steps"])))


def same_place(entry, fault):
    """Returns whether the entry names exactly the ranks of the fault."""
    ranks = set(entry["ranks"])
    if fault["level"] in ("data", "job"):
        return entry["kind"] in ("data", "job") or ranks == set(fault["ranks"]) or (fault["kind"] == "pause_everywhere" and entry["cause"] == "host_pause")
    return ranks == set(fault["ranks"])


def same_cause(entry, fault):
    return entry["cause"] == fault["cause"] or entry["cause"] in fault["also"]


def verdict(report, truth):
    """Returns the report's results for the job's faults as numbers that can be summed."""
    used = _steps_of(report, truth)
    healthy = _mean(truth["healthy_step_ns"][i] for i in used)
    actual = _mean(truth["step_ns"][i] for i in used)
    entries = report["stragglers"]
    believed = [e for e in entries if e["verdict"] in BELIEVED]
    faults = truth["faults"]
    out = {"lost": actual - healthy, "effect": (actual - healthy) / healthy, "step_error": report["slowdown"]["step_ns"] / actual - 1.0 if actual else None,
           "listed": len(entries), "believed": len(believed), "cause": faults[0]["cause"] if faults else "none",
           "predicted": entries[0]["cause"] if believed and believed[0] is entries[0] else "none", "sure": [], "gain_error": None, "right_place": None,
           "right_cause": None, "named": None, "both": None, "alone": None}
    out["sure"] = [any(same_place(e, f) and same_cause(e, f) for f in faults) for e in entries if e["verdict"] == "sure"]
    slow = report["slowdown"]
    total = slow["lost_ns_per_step"]
    if total and slow["unlisted_ns_per_step"] is not None:
        parts = sum(e["lost_ns_per_step"] for e in entries) + slow["noise_ns_per_step"] + slow["unlisted_ns_per_step"] + slow["unexplained_ns_per_step"]
        out["additivity"] = abs(parts - total) / abs(total)
    if not faults:
        return out
    # Of several faults, the report should name the most expensive one first. Equal faults may come in any
    # order.
    gains = [_mean(g[i] for i in used) for g in truth["gain_ns"]]
    first = entries[0] if believed and believed[0] is entries[0] else None
    matched = [f for f in faults if first and same_place(first, f)]
    out["named"] = first is not None
    out["right_place"] = bool(matched)
    out["right_cause"] = any(same_cause(first, f) for f in (matched or faults)) if first else False
    if out["right_cause"]:
        out["predicted"] = out["cause"] = next(f for f in (matched or faults) if same_cause(first, f))["cause"]
    if len(faults) > 1 and faults[0]["ranks"] != faults[1]["ranks"]:
        # The cost of each fault in a job without the other one. Beside a longer delay it may cost nothing.
        out["alone"] = [(out["lost"] - gains[1 - i]) / healthy for i in range(2)]
        out["both"] = all(any(same_place(e, f) for e in believed) for f in faults)
        sets = [f for f in report["fixes"] if all(any(same_place(entries[i], fault) for i in f["entries"]) for fault in faults)]
        if sets and out["lost"] > 0.01 * healthy:
            out["set_error"] = abs(min(sets, key=lambda f: len(f["entries"]))["gain_ns_per_step"] - out["lost"]) / out["lost"]
    if matched:
        gain = gains[faults.index(matched[0])]
        if len(faults) == 1:
            gain = out["lost"]
        if gain > 0.01 * healthy:
            out["gain_error"] = abs(first["gain_ns_per_step"] - gain) / gain
            out["inside"] = first["gain_interval"][0] <= gain <= first["gain_interval"][1] if first["gain_interval"] else None
    return out


def clock_violations(report, truth):
    """Returns (hosts whose stated bound is exceeded in the window, hosts with a bound, worst error in ns,
    stated bounds in ns)."""
    clocks, hosts = truth["clocks"], report["capture"]["clock"]["hosts"]
    known = {int(h["host"][1:]): h for h in hosts if h["bound_ns"] is not None and h["offset_ns"] is not None}
    reference = next((n for n, h in known.items() if h["bound_ns"] == 0), None)
    if reference is None:
        return 0, 0, 0.0, []
    begin, end = truth["window_true_ns"]

    def ahead(host, true):
        error = clocks["offset_ns"][host] + clocks["drift_ppm"][host] * 1e-6 * true
        return error + (clocks["step_ns"] if host == clocks["stepped_host"] and true >= clocks["step_at_true_ns"] else 0.0)

    broken, worst, bounds = 0, 0.0, []
    middle = (begin + end) / 2
    for host, clock in known.items():
        if host == reference:
            continue
        errors = []
        for k in range(9):
            true = begin + (end - begin) * k / 8
            estimate = clock["offset_ns"] + (clock["drift_ppm"] or 0.0) * 1e-6 * (true - middle)
            errors.append(abs(ahead(host, true) - ahead(reference, true) - estimate))
        bounds.append(clock["bound_ns"])
        worst = max(worst, max(errors))
        # The tolerance allows for stamps of whole nanoseconds and the few printed digits of the drift.
        broken += max(errors) > clock["bound_ns"] + 50
    return broken, len(bounds), worst, bounds


def collectives(listing, truth):
    """`listing` is the output of list_collectives. Returns the number of kernels that could be matched, the
    numbers matched right and wrong, and the errors in ns."""
    rows, rank = {}, None
    for line in listing.splitlines():
        if line.startswith("rank "):
            rank = int(line[5:])
            rows[rank] = []
        else:
            rows[rank].append([int(x) for x in line.split()])
    sizes = {int(k): v for k, v in truth["collective_sizes"].items()}
    seen, instances, errors = {}, {}, []
    for rank, own in enumerate(truth["collectives"]):
        for number, _, _ in own:
            seen[number] = seen.get(number, 0) + 1
    for rank, own in enumerate(truth["collectives"]):
        measured = rows.get(rank, [])
        if len(measured) != len(own):
            raise RuntimeError(f"rank {rank} has {len(own)} collectives, the product sees {len(measured)}")
        for (number, wait, transfer), (instance, measured_wait, measured_transfer) in zip(own, measured):
            if instance >= 0:
                instances.setdefault(instance, []).append(number)
    right_instances = {n for n, numbers in instances.items() if len(set(numbers)) == 1}
    possible = right = wrong = 0
    for rank, own in enumerate(truth["collectives"]):
        for (number, wait, transfer), (instance, measured_wait, measured_transfer) in zip(own, rows.get(rank, [])):
            whole = seen[number] == sizes[number] > 1
            possible += whole
            if instance < 0:
                continue
            if instance not in right_instances:
                wrong += 1
            elif whole:
                right += 1
                if measured_wait >= 0 and wait >= 0:
                    errors.append(abs(measured_wait - wait))
    return {"possible": possible, "right": right, "wrong": wrong, "errors": errors}
