"""Sum an evaluation up: how often it succeeded, how sure that is, and what it scored.

Answers to one problem resemble each other, so it is the problems that are counted: an interval of
256 problems does not shrink because each was answered four times.
"""

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from rollouts.curriculum.rules.performance import Counts, Outcome, gain, total
from rollouts.curriculum.rules.student import Z_95, wilson

TRICKLE_ROUNDS: Final = 4
"""A graduated lesson is evaluated in one of so many rounds."""


class Interval(msgspec.Struct, frozen=True):
    """An estimate and its bounds, each exceeded with 5 % chance."""

    estimate: float
    low: float
    high: float


class EvaluationFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one evaluation of a lesson measured."""

    problems: int
    generations: int
    """Answers to each."""
    successes: int
    """Problems' worth of successes: their mean rates summed and rounded down."""
    success: Interval
    """Rate over all answers; bounds by Wilson, for as many samples as there are problems."""
    pass_at: dict[int, float]
    """Chance that one of k answers succeeds, for k = 1, 2, 4, … and `generations`."""
    reward: Interval
    """Mean over all answers; bounds from the spread between problems."""
    tokens: int = 0
    truncated: int = 0
    seconds: float = 0.0


def is_due(*, last: tuple[int, int] | None, now: tuple[int, int], every: int) -> bool:
    """Return whether lessons are to be evaluated at this version.

    Args:
        last: Epoch and step of the version that the last round was due at; None before the
            first, which is a baseline.
        now: The same of the current version.
        every: Steps between two rounds; an epoch begins with one, because its weights may be
            restored ones.
    """
    if last is None or now[0] != last[0]:
        return True
    return now[1] - last[1] >= every


def is_in_round(*, position: int, round_number: int, is_graduated: bool) -> bool:
    """Return whether a lesson is evaluated in a round: every one, but graduated ones in turn."""
    return not is_graduated or position % TRICKLE_ROUNDS == round_number % TRICKLE_ROUNDS


def figures_of(
    rewards: Sequence[float],
    successes: Sequence[bool],
    *,
    generations: int,
    tokens: int = 0,
    truncated: int = 0,
    seconds: float = 0.0,
) -> EvaluationFigures:
    """Return the figures of an evaluation of at least one problem.

    Args:
        rewards: ``[N]``, problems in order and their answers beside each other.
        successes: ``[N]``, N = problems × generations.
        generations: Answers to each problem, dividing N.
        tokens: That the policy wrote.
        truncated: Answers cut at their longest length.
        seconds: It took.
    """
    scores = np.asarray(rewards, dtype=np.float64).reshape(-1, generations).mean(axis=1)
    correct = np.asarray(successes, dtype=bool).reshape(-1, generations).sum(axis=1)
    problems = len(scores)
    worth = int(correct.sum()) // generations
    low, high = wilson(worth, problems)
    rate = float(correct.sum()) / (problems * generations)
    mean = float(scores.mean())
    reach = Z_95 * float(scores.std(ddof=1)) / math.sqrt(problems) if problems > 1 else 0.0
    return EvaluationFigures(
        problems=problems,
        generations=generations,
        successes=worth,
        success=Interval(rate, low, high),
        pass_at={k: pass_at_k(correct, k, generations=generations) for k in _ks(generations)},
        reward=Interval(mean, mean - reach, mean + reach),
        tokens=tokens,
        truncated=truncated,
        seconds=seconds,
    )


def pass_at_k(correct: "np.typing.NDArray[np.int64]", k: int, *, generations: int) -> float:
    """Return the chance that one of k answers is correct, mean over the problems.

    1 − C(n−c, k) / C(n, k) for c correct answers of n. Source: M. Chen et al., Evaluating Large
    Language Models Trained on Code (2021), section 2.1.

    Args:
        correct: ``[problems]``, correct answers to each.
        k: 1 to `generations`.
        generations: n.
    """
    ways = math.comb(generations, k)
    missed = {c: math.comb(generations - c, k) / ways for c in range(generations + 1)}
    return 1.0 - sum(missed[int(c)] for c in correct) / len(correct)


def pass_intervals(figures: EvaluationFigures) -> dict[int, Interval]:
    """Return pass@k with its bounds, for each k that the answers to a problem allow.

    A problem's own pass@k lies between 0 and 1, so its variance is at most that of a draw of 0 or
    1 with the same mean, and Wilson's bounds for as many draws as there are problems hold it: they
    are somewhat wider than they need be, never narrower. The mean is rounded outward to whole
    problems.
    """
    found = {}
    for k, rate in figures.pass_at.items():
        # The mean of many fractions is not exact to the last bit.
        worth = round(rate * figures.problems, 9)
        low, _ = wilson(math.floor(worth), figures.problems)
        _, high = wilson(math.ceil(worth), figures.problems)
        found[k] = Interval(rate, low, high)
    return found


def as_outcome(
    rewards: Sequence[float], successes: Sequence[bool], *, generations: int, step: int
) -> Outcome:
    """Return an evaluation as what a strategy judges by: each problem counts as one sample."""
    scores = np.asarray(rewards, dtype=np.float64).reshape(-1, generations).mean(axis=1)
    worth = int(np.count_nonzero(successes)) // generations
    return Outcome(step=step, rewards=tuple(scores.tolist()), successes=worth)


def has_regressed(*, at_graduation: Counts, now: Counts) -> bool:
    """Return whether a graduated lesson is surely worse than when it graduated.

    The same quantity on both sides: the success of an evaluation, and its 95 % bounds.
    """
    if not at_graduation.samples or not now.samples:
        return False
    lower_then, _ = wilson(at_graduation.successes, at_graduation.samples)
    _, upper_now = wilson(now.successes, now.samples)
    return upper_now < lower_then


def has_stalled(results: Sequence[Counts]) -> bool:
    """Return whether the newer half of evaluations succeeds no more than the older half.

    More by what chance alone gives with 95 % confidence counts as no more.

    Args:
        results: Of one lesson, oldest first; at least two.
    """
    half = len(results) // 2
    before, after = total(list(results[:half])), total(list(results[half:]))
    if not before.samples or not after.samples:
        return False
    gained, spread = gain(before, after)
    return gained <= Z_95 * spread


def _ks(generations: int) -> list[int]:
    doubled = [1 << power for power in range(generations.bit_length())]
    return sorted({*(k for k in doubled if k <= generations), generations})
