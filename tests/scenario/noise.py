"""The noise of every healthy job: kernel durations vary, ranks and hosts drift for some steps, and hosts
pause shortly.

The same seed gives the same noise with and without a fault. Each rank draws from its own random stream in
the order of its program, which a fault does not change.
"""
import random

# Shares of the noise level: per operation, per rank over steps, per host over steps.
_OPERATION, _RANK, _HOST = 0.8, 0.5, 0.35
_MEMORY = 0.6  # fraction of a step's drift that remains in the next step


def stream(seed, *what):
    return random.Random("/".join(map(str, (seed, *what))))


class Noise:
    def __init__(self, seed, layout, steps, level, spread, pause_rate, kernels):
        """`level` is the total relative standard deviation, `spread` the permanent difference between
        devices. `pause_rate` is the probability of a small host pause per rank and step. One operation of
        the program stands for `kernels` kernels."""
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
