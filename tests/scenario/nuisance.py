"""Disturbances between a job and its analysis: clocks that disagree, lost records, missing ranks, and missing
metadata."""
from noise import stream


class Clocks:
    """Each host's clock. It is ahead by `offset` and `drift` (parts per million). One host's clock steps by
    `step` at `step_at`."""

    def __init__(self, seed, hosts, offset_ms, drift_ppm, window_ns, step_ms=0.0):
        rng = stream(seed, "clocks")
        self.offset = [rng.uniform(-offset_ms, offset_ms) * 1e6 for _ in range(hosts)]
        self.drift = [rng.uniform(-drift_ppm, drift_ppm) * 1e-6 for _ in range(hosts)]
        self.stepped = rng.randrange(hosts) if step_ms else None
        self.step, self.step_at = rng.choice((-1, 1)) * step_ms * 1e6, rng.uniform(0.3, 0.7) * window_ns

    def error(self, host, true):
        """Returns how far the host's clock is ahead at a true time."""
        ahead = self.offset[host] + self.drift[host] * true
        return ahead + self.step if host == self.stepped and true >= self.step_at else ahead

    def describe(self):
        return {"offset_ns": self.offset, "drift_ppm": [d * 1e6 for d in self.drift], "stepped_host": self.stepped,
                "step_ns": self.step if self.stepped is not None else 0, "step_at_true_ns": self.step_at}


class Loss:
    """Drops single records and bursts of records, as full buffers do."""

    def __init__(self, seed, share):
        self.share, self.rng, self.burst, self.lost = share, stream(seed, "loss"), 0, 0

    def takes(self):
        if self.share <= 0.0:
            return False
        if self.burst > 0:
            self.burst -= 1
        elif self.rng.random() < self.share * 0.5:
            pass
        elif self.rng.random() < self.share * 0.5 / 15.0:
            self.burst = self.rng.randrange(5, 25)
        else:
            return False
        self.lost += 1
        return True


def missing_ranks(seed, world, share):
    return sorted(stream(seed, "missing").sample(range(world), int(world * share)))
