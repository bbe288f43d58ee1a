"""Computes the median steps of two programs that ran in turns, and the confidence interval of their ratio."""
import collections
import random
import statistics

# `value` is computed from all steps. [low, high] contains 95 % of the resamples.
Interval = collections.namedtuple("Interval", "value low high")
# The steps in ns of one turn of a program, and of the base program's turn next to it in time.
Pair = collections.namedtuple("Pair", "base steps")
RESAMPLES = 1000


def ratio(pairs, resamples=RESAMPLES, seed=1):
    """Returns the median step over the base's median step. It resamples whole turns and then steps of each
    turn. Steps of one turn share the state of the machine, so that resampling steps alone would give too
    small an interval."""
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
    """Interpolates a quantile of sorted values."""
    at = fraction * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def relative(one, other):
    """Returns the interval of the quotient of two ratios from independent measurements."""
    return Interval(one.value / other.value, one.low / other.high, one.high / other.low)


def within_noise(measured, control):
    """Returns whether no slowdown is visible: the interval includes 1, or the difference of two equal
    programs in the same run."""
    return measured.low <= max(1.0, control.high)


def smallest_visible(measured, control=None):
    """Returns the smallest slowdown (0.01 is 1 %) whose interval would lie above 1 and above the control's, if it were as wide as
    the measured one."""
    least = max(1.0, control.high) if control else 1.0
    return max(0.0, least + (measured.value - measured.low) - 1)


def text(interval):
    return f"{interval.value:.4f} [{interval.low:.4f}, {interval.high:.4f}]"
