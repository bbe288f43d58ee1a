"""What every healthy job has: kernels that never take equally long, ranks and hosts that drift for some steps, small pauses.

The same seed gives the same noise with and without a fault: each rank draws from its own stream in the order of its program,
which a fault does not change.
"""
import random

# Of the whole level: per operation, per rank over steps, per host over steps.
_OPERATION, _RANK, _HOST = 0.8, 0.5, 0.35
_MEMORY = 0.6  # how much of a step's drift stays in the next one


def stream(seed, *what):
    return random.Random("/".join(map(str, (seed, *what))))


class Noise:
    def __init__(self, seed, layout, steps, level, spread, pause_rate, kernels):
        """`level` is the relative standard deviation in all, `spread` the lasting difference between devices, `pause_rate` the
        chance of a small host pause per rank and step; one operation of the program stands for so many kernels."""
        self.operation = level * _OPERATION / kernels ** 0.5
        hosts = [self._drift(stream(seed, "host", h), steps, level * _HOST) for h in range(layout.hosts)]
        self.pauses, self._factor = [], []
        for r in range(layout.world):
            rng = stream(seed, "rank", r)
            lasting = 1.0 + rng.gauss(0.0, spread)
            own = self._drift(rng, steps, level * _RANK)
            self._factor.append([lasting * (1.0 + a) * (1.0 + b) for a, b in zip(own, hosts[layout.host(r)])])
            self.pauses.append({s: (rng.random(), 2e4 + rng.expovariate(1 / 1e5)) for s in range(steps) if rng.random() < pause_rate})
        self.streams = [stream(seed, "operations", r) for r in range(layout.world)]

    @staticmethod
    def _drift(rng, steps, level):
        value, out = rng.gauss(0.0, level), []
        for _ in range(steps):
            value = _MEMORY * value + (1.0 - _MEMORY ** 2) ** 0.5 * rng.gauss(0.0, level)
            out.append(value)
        return out

    def factor(self, rank, step):
        return self._factor[rank][step]
