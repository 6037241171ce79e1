"""Describe groups of answers: what they scored, how long they are, how much they are alike.

A group is the S answers to one prompt. What it teaches comes from the differences inside it: a
group whose answers all got the same reward has no advantage to learn from, and one whose answers
are all the same words has explored nothing.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolldeck.advantages import has_zero_variance

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatistics:
    """Figures of one group, or of several that were put together.

    Attributes:
        groups: How many groups these are.
        answers: In all of them.
        reward_mean: Over the answers.
        reward_deviation: The population's, inside a group; its mean over several.
        zero_variance_groups: Groups of two answers or more that all got the same reward.
        tokens: That the policy wrote.
        length_mean: Tokens of an answer.
        length_p50: Median of the same.
        length_p95: 19 in 20 answers are no longer.
        length_max: Of the longest answer.
        truncated: Answers that were cut at their longest length.
        duplicates: Answers that equal an earlier one of their group.
    """

    groups: int
    answers: int
    reward_mean: float
    reward_deviation: float
    zero_variance_groups: int
    tokens: int
    length_mean: float
    length_p50: float
    length_p95: float
    length_max: int
    truncated: int
    duplicates: int

    @property
    def truncated_share(self) -> float:
        """Part of the answers that were cut."""
        return self.truncated / self.answers if self.answers else 0.0

    @property
    def duplicate_share(self) -> float:
        """Part of the answers that say nothing new."""
        return self.duplicates / self.answers if self.answers else 0.0


class Group(NamedTuple):
    """What is known of one group, S answers in the same order everywhere."""

    rewards: ArrayLike
    """``[S]``, finite."""
    lengths: ArrayLike
    """``[S]``, tokens that the policy wrote."""
    truncated: ArrayLike
    """``[S]`` bool."""
    answers: Sequence[Hashable]
    """Texts, or tuples of tokens; what is equal is the same answer."""


def describe_groups(groups: Iterable[Group]) -> GroupStatistics:
    """Return the figures of several groups; zeros where there is no answer.

    Raises:
        ValueError: If the columns of a group differ in length.
    """
    listed = list(groups)
    for place, group in enumerate(listed):
        _check_columns(place, group)
    rewards = [np.asarray(group.rewards, dtype=np.float64) for group in listed]
    lengths = _joined([group.lengths for group in listed])
    scores = _joined(rewards)
    p50, p95 = np.percentile(lengths, [50, 95]) if len(lengths) else (0.0, 0.0)
    deviations = [float(one.std()) for one in rewards if len(one)]
    return GroupStatistics(
        groups=len(listed),
        answers=len(scores),
        reward_mean=float(scores.mean()) if len(scores) else 0.0,
        reward_deviation=float(np.mean(deviations)) if deviations else 0.0,
        zero_variance_groups=sum(map(has_zero_variance, rewards)),
        tokens=int(lengths.sum()),
        length_mean=float(lengths.mean()) if len(lengths) else 0.0,
        length_p50=float(p50),
        length_p95=float(p95),
        length_max=int(lengths.max(initial=0)),
        truncated=int(_joined([group.truncated for group in listed]).sum()),
        duplicates=sum(len(group.answers) - len(set(group.answers)) for group in listed),
    )


def split_by_variance(
    groups: Iterable[T], *, rewards_of: Callable[[T], ArrayLike]
) -> tuple[list[T], list[T]]:
    """Return the groups that teach something, and those whose rewards are all equal; in order.

    Args:
        groups: Of any kind.
        rewards_of: Gives a group's rewards, ``[S]``. A group of one answer is kept: it has
            nothing to be compared with, which is not the same as being all alike.
    """
    kept: list[T] = []
    dropped: list[T] = []
    for group in groups:
        rewards = np.asarray(rewards_of(group), dtype=np.float64)
        (dropped if has_zero_variance(rewards) else kept).append(group)
    return kept, dropped


def _joined(columns: Sequence[ArrayLike]) -> NDArray[Any]:
    arrays = [np.asarray(column, dtype=np.float64) for column in columns]
    return np.concatenate([np.zeros(0), *arrays])


def _check_columns(place: int, group: Group) -> None:
    sizes = {name: np.size(column) for name, column in group._asdict().items() if name != "answers"}
    sizes["answers"] = len(group.answers)
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{size} {name}" for name, size in sizes.items())
        raise ValueError(f"groups[{place}]: {shown}")
