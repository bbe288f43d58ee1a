"""Tests the statistics of the overhead check with steps of a known ratio."""
import random
import unittest

from overhead_stats import Interval, Pair, quantile, ratio, relative, smallest_visible, within_noise


def turns(count, base_ns, factor, generator, spread=0.02, common_slowdown=0.0):
    """Returns pairs of turns of 35 steps. `common_slowdown` is the largest common slowdown of both programs in a pair."""
    made = []
    for _ in range(count):
        slow = 1 + generator.uniform(0, common_slowdown)
        made.append(Pair([base_ns * slow * generator.gauss(1, spread) for _ in range(35)],
                         [base_ns * factor * slow * generator.gauss(1, spread) for _ in range(35)]))
    return made


class Ratio(unittest.TestCase):
    def test_the_ratio_is_exact_without_variation(self):
        self.assertEqual(ratio([Pair([100] * 5, [103] * 5)] * 4), Interval(1.03, 1.03, 1.03))

    def test_the_interval_nearly_always_has_the_true_ratio(self):
        generator = random.Random(7)
        held = 0
        for _ in range(40):
            found = ratio(turns(6, 1e6, 1.02, generator, common_slowdown=0.05), resamples=200)
            self.assertLess(found.low, found.high)
            self.assertLess(found.high - found.low, 0.05)
            held += found.low <= 1.02 <= found.high
        self.assertGreaterEqual(held, 34)

    def test_a_slow_period_widens_the_interval(self):
        generator = random.Random(3)
        steady = turns(6, 1e6, 1.0, generator)
        spell = steady[:3] + [Pair(p.base, [step * 1.2 for step in p.steps]) for p in steady[3:]]
        self.assertGreater(ratio(spell).high - ratio(spell).low, 5 * (ratio(steady).high - ratio(steady).low))

    def test_a_few_hanging_steps_do_not_change_the_ratio(self):
        generator = random.Random(5)
        pairs = turns(6, 1e6, 1.0, generator)
        pairs[0].steps[0] *= 1000
        self.assertAlmostEqual(ratio(pairs).value, 1.0, delta=0.01)

    def test_the_same_steps_give_the_same_interval(self):
        pairs = turns(6, 1e6, 1.01, random.Random(9))
        self.assertEqual(ratio(pairs), ratio(pairs))

    def test_ignores_turns_without_steps(self):
        self.assertEqual(ratio([Pair([100], [110]), Pair([100], [])]).value, 1.1)
        with self.assertRaises(ValueError):
            ratio([Pair([], [1])])


class Verdict(unittest.TestCase):
    def test_quantiles_lie_between_their_neighbours(self):
        self.assertEqual(quantile([1, 2, 3, 4, 5], 0.5), 3)
        self.assertEqual(quantile([0, 10], 0.25), 2.5)
        self.assertEqual(quantile([4], 0.975), 4)

    def test_a_slowdown_between_equal_programs_is_noise(self):
        control = Interval(1.002, 0.998, 1.006)
        self.assertTrue(within_noise(Interval(1.01, 0.999, 1.02), control))
        self.assertTrue(within_noise(Interval(1.01, 1.005, 1.02), control))
        self.assertFalse(within_noise(Interval(1.02, 1.01, 1.03), control))
        self.assertTrue(within_noise(Interval(0.98, 0.97, 0.99), Interval(0.99, 0.98, 0.995)), "faster is no slowdown")

    def test_names_the_smallest_slowdown_that_would_show(self):
        control = Interval(1.002, 0.998, 1.006)
        measured = Interval(1.00, 0.99, 1.01)
        least = smallest_visible(measured, control)
        self.assertAlmostEqual(least, 0.016)
        just_above, just_below = (Interval(1 + s, 1 + s - 0.01, 1 + s + 0.01) for s in (least + 1e-6, least - 1e-6))
        self.assertFalse(within_noise(just_above, control))
        self.assertTrue(within_noise(just_below, control))
        self.assertAlmostEqual(smallest_visible(measured), 0.01)

    def test_divides_one_ratio_by_another(self):
        found = relative(Interval(1.02, 1.01, 1.03), Interval(1.06, 1.05, 1.07))
        self.assertAlmostEqual(found.value, 1.02 / 1.06)
        self.assertLess(found.high, 1)
        self.assertLess(found.low, found.value)


if __name__ == "__main__":
    unittest.main()
