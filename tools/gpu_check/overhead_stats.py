"""Medians of steps that two programs made in turns, and how sure their ratio is."""
import collections
import random
import statistics

# `value` is of all steps, [low, high] holds 95 % of the resamples.
Interval = collections.namedtuple("Interval", "value low high")
# One turn of the program in question and the turn of the one it is compared with, next to it in time: their steps in ns.
Pair = collections.namedtuple("Pair", "base steps")
RESAMPLES = 1000


def ratio(pairs, resamples=RESAMPLES, seed=1):
    """The median step over the median step of the base. Whole turns are drawn, then steps of each: steps of one turn share the machine's
    mood, so that drawing single steps alone would promise too much."""
    generator = random.Random(seed)
    pairs = [p for p in pairs if p.base and p.steps]
    if not pairs:
        raise ValueError("no pair of turns")

    def one(chosen, draw):
        base, steps = [], []
        for pair in chosen:
            base += draw(pair.base)
            steps += draw(pair.steps)
        return statistics.median(steps) / statistics.median(base)

    value = one(pairs, lambda steps: steps)
    drawn = sorted(one(generator.choices(pairs, k=len(pairs)), lambda steps: generator.choices(steps, k=len(steps)))
                   for _ in range(resamples))
    return Interval(value, quantile(drawn, 0.025), quantile(drawn, 0.975))


def quantile(ordered, fraction):
    """Of sorted values, between the two nearest."""
    at = fraction * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def relative(one, other):
    """Interval of one ratio over another's, of independent measurements."""
    return Interval(one.value / other.value, one.low / other.high, one.high / other.low)


def within_noise(measured, control):
    """Whether no slowdown is seen: the interval reaches down to 1, or to what two equal programs differed by in the same run."""
    return measured.low <= max(1.0, control.high)


def text(interval):
    return f"{interval.value:.4f} [{interval.low:.4f}, {interval.high:.4f}]"
