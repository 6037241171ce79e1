"""Views of a fragment: summary, curves, and windows of steps as columns.

All output is bounded: long vectors are truncated, and images appear by their shape only.

A fragment holds whole episodes and parts of episodes. An episode longer than a fragment spans
several consecutive fragments of its slot.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from buffer.ingest.rules.fragments import BrokenFragment, check
from rolldeck.errors import InvalidMessageError
from rolldeck.fleet_wire import INFO_KEYS_AT_MOST
from rolldeck.wire import (
    INFO,
    Fragment,
    unpack_array,
)
from web.rules.errors import InvalidData, InvalidField, NotFound

MOST_STEPS: Final = 2048
"""Steps of one window."""
MOST_NUMBERS: Final = 16
"""Numbers of one action or observation."""
LINE_POINTS: Final = 512
MOST_EPISODES: Final = 256


class FragmentUnreadable(InvalidData):
    """The bytes are not a valid fragment; the message contains the reason."""


class ArrayForm(Struct, frozen=True, kw_only=True):
    """Name, dtype and shape of an array in a fragment."""

    name: str
    dtype: str
    shape: list[int]
    size_bytes: int


class EpisodePart(Struct, frozen=True, kw_only=True):
    """The part of an episode that a fragment holds."""

    id: str
    first: int
    """Index of its first step in the fragment, from 0."""
    steps: int
    reward: float
    """Sum of the rewards of these steps."""
    begins: bool
    """True if the fragment holds its beginning."""
    outcome: str
    """`terminated` or `truncated` if the fragment holds its end, else empty."""


class StepCurve(Struct, frozen=True, kw_only=True):
    """A number over steps; low and high keep every spike."""

    last: list[float]
    low: list[float]
    high: list[float]


class InfoCurve(Struct, frozen=True, kw_only=True):
    """A value of `info` over steps; null where no step has a number."""

    key: str
    last: list[float | None]
    low: list[float | None]
    high: list[float | None]


class StepCurves(Struct, frozen=True, kw_only=True):
    """Numbers over steps, downsampled to at most 512 points."""

    step: list[int]
    """Last step of each point."""
    is_exact: bool
    """True if each point is one step."""
    total: StepCurve
    """Sum of the rewards of the episode up to the step."""
    reward: StepCurve
    value: StepCurve
    """Value estimates of the policy."""
    info: list[InfoCurve]
    """Stored values of `info`, by key; at most 16."""


class FragmentContent(Struct, frozen=True, kw_only=True):
    """The content of a fragment, without its steps."""

    steps: int
    real_steps: int
    """Number of steps without padding."""
    reward_sum: float
    episodes: list[EpisodePart]
    episodes_left_out: int
    arrays: list[ArrayForm]
    curves: StepCurves


class InfoColumn(Struct, frozen=True, kw_only=True):
    """A value of `info` at each step; null where the step has no number."""

    key: str
    values: list[float | None]


class StepWindow(Struct, frozen=True, kw_only=True):
    """Consecutive steps of a fragment, as columns."""

    start: int
    total: int
    """Number of steps of the whole fragment, including padding."""
    action: list[list[float]]
    """First 16 numbers of each action."""
    action_size: int
    """Count of numbers in an action."""
    obs: list[list[float]]
    """Numbers of each observation; empty if it has more than 16."""
    obs_size: int
    obs_range: list[list[float]]
    """Least, mean and greatest number of each observation that `obs` omits; else empty."""
    reward: list[float]
    info: list[InfoColumn]
    """Stored values of `info`, by key; at most 16."""
    value: list[float]
    logprob: list[float]
    first: list[bool]
    terminated: list[bool]
    truncated: list[bool]
    is_padding: list[bool]
    policy_step: list[int]
    episode: list[int]
    """Index of the step's episode in the fragment, from 0."""


class NoSuchStep(NotFound):
    """The step is beyond the end of the fragment."""


class DecodedFragment:
    """A valid fragment and its arrays."""

    def __init__(self, content: bytes) -> None:
        """Decode and validate the bytes of a fragment.

        Raises:
            FragmentUnreadable: If the bytes are not a valid fragment.
        """
        try:
            self.fragment = msgspec.msgpack.decode(content, type=Fragment)
            check(self.fragment)
        except (msgspec.MsgspecError, BrokenFragment, RecursionError, UnicodeDecodeError) as error:
            raise FragmentUnreadable(f"not a valid fragment: {error}"[:500]) from error
        self.arrays: dict[str, NDArray[Any]] = {
            name: unpack_array(packed) for name, packed in self.fragment.arrays.items()
        }
        mask = self.arrays.get("mask")
        self.real_steps = self.fragment.steps if mask is None else int(mask.sum())


def content_of(opened: DecodedFragment) -> FragmentContent:
    """Return the content of a fragment, without its steps."""
    episodes = episode_parts(opened)
    real = opened.real_steps
    return FragmentContent(
        steps=opened.fragment.steps,
        real_steps=real,
        reward_sum=_sum(opened.arrays["reward"][:real]),
        episodes=episodes[:MOST_EPISODES],
        episodes_left_out=max(0, len(episodes) - MOST_EPISODES),
        arrays=[
            ArrayForm(name=name, dtype=one.dtype, shape=list(one.shape), size_bytes=len(one.data))
            for name, one in opened.fragment.arrays.items()
        ],
        curves=curves_of([series_of(opened, part) for part in episodes]),
    )


Series = Mapping[str, NDArray[Any]]
"""Columns `reward`, `value` and ``info.<key>`` of consecutive steps, by name, ``[T]`` each."""


def series_of(opened: DecodedFragment, part: EpisodePart) -> Series:
    """Return the numbers of a part of an episode."""
    rows = slice(part.first, part.first + part.steps)
    names = ("reward", "value", *_info_names(opened.arrays))
    return {name: opened.arrays[name][rows].copy() for name in names}


def _info_names(arrays: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in arrays if name.startswith(INFO))[:INFO_KEYS_AT_MOST]


def curves_of(episodes: Sequence[Series]) -> StepCurves:
    """Return the curves of consecutive episodes."""
    totals = [np.cumsum(each["reward"], dtype=np.float64) for each in episodes]
    columns = joined(episodes) | {"total": np.concatenate(totals).astype(np.float32)}
    steps = len(columns["reward"])
    width = -(-steps // LINE_POINTS)
    starts = np.arange(0, steps, width)
    ends = np.minimum(starts + width, steps) - 1
    curves = {
        name: {
            "last": _numbers(_last_numbers(values, starts, ends)),
            "low": _numbers(np.fmin.reduceat(values, starts)),
            "high": _numbers(np.fmax.reduceat(values, starts)),
        }
        for name, values in columns.items()
    }
    return StepCurves(
        step=ends.tolist(),
        is_exact=width == 1,
        **{name: StepCurve(**curves[name]) for name in ("total", "reward", "value")},
        info=[
            InfoCurve(key=name.removeprefix(INFO), **curves[name]) for name in _info_names(curves)
        ],
    )


def joined(parts: Sequence[Series]) -> dict[str, NDArray[Any]]:
    """Return the columns of consecutive parts; values of `info` that a part lacks are NaN."""
    return {
        name: np.concatenate(
            [part.get(name, np.full(len(part["reward"]), np.nan, np.float32)) for part in parts]
        )
        for name in dict.fromkeys(name for part in parts for name in part)
    }


def _last_numbers(
    values: NDArray[Any], starts: NDArray[np.intp], ends: NDArray[np.intp]
) -> NDArray[Any]:
    """Return the last number from each start to its end; NaN where there is none."""
    at = np.maximum.accumulate(np.where(np.isnan(values), -1, np.arange(len(values))))[ends]
    return np.where(at >= starts, values[at], np.float32(np.nan))


def window(opened: DecodedFragment, *, start: int, count: int) -> StepWindow:
    """Return up to `count` steps from `start` on.

    Raises:
        NoSuchStep: If the fragment ends before `start`.
    """
    total = opened.fragment.steps
    if start >= total:
        raise NoSuchStep(f"step {start} does not exist: the fragment has {total} steps, from 0")
    rows = slice(start, min(total, start + min(count, MOST_STEPS)))
    arrays = opened.arrays
    action = arrays["action"].reshape(total, -1)
    obs = [
        array.reshape(total, -1)
        for name, array in sorted(arrays.items())
        if name == "obs" or name.startswith("obs.")
    ]
    obs_size = sum(part.shape[1] for part in obs)
    is_shown = 0 < obs_size <= MOST_NUMBERS
    return StepWindow(
        start=start,
        total=total,
        action=_numbers(action[rows, :MOST_NUMBERS]),
        action_size=action.shape[1],
        obs=_numbers(np.concatenate([part[rows] for part in obs], axis=1)) if is_shown else [],
        obs_size=obs_size,
        obs_range=_ranges([part[rows] for part in obs]) if obs_size > MOST_NUMBERS else [],
        reward=_numbers(arrays["reward"][rows]),
        info=[
            InfoColumn(key=name.removeprefix(INFO), values=_numbers(arrays[name][rows]))
            for name in _info_names(arrays)
        ],
        value=_numbers(arrays["value"][rows]),
        logprob=_numbers(arrays["behavior_logprob"][rows]),
        first=arrays["first"][rows].tolist(),
        terminated=arrays["terminated"][rows].tolist(),
        truncated=arrays["truncated"][rows].tolist(),
        is_padding=[step >= opened.real_steps for step in range(rows.start, rows.stop)],
        policy_step=arrays["policy_step"][rows].tolist(),
        episode=arrays["episode_index"][rows].tolist(),
    )


def _ranges(parts: list[NDArray[Any]]) -> list[list[float]]:
    """Return the least, mean and greatest number of each row over arrays of equal length."""
    numbers = [part for part in parts if part.shape[1]]
    size = sum(part.shape[1] for part in numbers)
    least = np.min([part.min(axis=1) for part in numbers], axis=0)
    most = np.max([part.max(axis=1) for part in numbers], axis=0)
    total = np.sum([part.sum(axis=1, dtype=np.float64) for part in numbers], axis=0)
    found = np.stack([least, total / size, most], axis=1).astype(np.float64)
    ranges: list[list[float]] = _numbers(found)
    return ranges


def reward_sum(content: bytes) -> float | None:
    """Return the sum of a fragment's rewards, or None if the bytes are not a valid fragment."""
    try:
        fragment = msgspec.msgpack.decode(content, type=Fragment)
        rewards = unpack_array(fragment.arrays["reward"])
        # Padding has no reward.
        return _sum(rewards) if rewards.dtype.kind == "f" and np.isfinite(rewards).all() else None
    except (
        msgspec.MsgspecError,
        InvalidMessageError,
        KeyError,
        RecursionError,
        UnicodeDecodeError,
    ):
        return None


def _sum(rewards: NDArray[Any]) -> float:
    return _short(float(rewards.sum(dtype=np.float64)))


def _short(value: float) -> float:
    """Return a float32 value in short form: 0.1, not 0.10000000149011612."""
    return float(f"{value:.7g}")


def _numbers(values: NDArray[Any]) -> list[Any]:
    """Return an array as JSON numbers; integers stay integers, and NaN of one axis is None."""
    if values.dtype.kind == "b":
        values = values.astype(np.int8)
    if values.dtype.kind != "f":
        listed: list[Any] = values.tolist()
        return listed
    if values.ndim == 1:
        return [None if math.isnan(value) else _short(value) for value in values.tolist()]
    return [[_short(value) for value in row] for row in values.tolist()]


def episode_parts(opened: DecodedFragment) -> list[EpisodePart]:
    """Return the episodes of a fragment in the order of their steps."""
    arrays, real = opened.arrays, opened.real_steps
    index = arrays["episode_index"][:real]
    starts = np.flatnonzero(np.diff(index, prepend=index[0] - 1))
    found = []
    for begin, end in zip(starts, [*starts[1:], real], strict=True):
        last = end - 1
        ended = [name for name in ("terminated", "truncated") if arrays[name][last]]
        found.append(
            EpisodePart(
                id=opened.fragment.episode_ids[index[begin]],
                first=int(begin),
                steps=int(end - begin),
                reward=_sum(arrays["reward"][begin:end]),
                begins=bool(arrays["first"][begin]),
                outcome=ended[0] if ended else "",
            )
        )
    return found


_DIGITS_AT_MOST = 18


class InvalidEpisodeId(InvalidField):
    """The text is not the id of an episode."""


def slot_and_number(episode: str) -> tuple[str, int]:
    """Return slot and number of an episode id, such as ``w0-3@5f2c/12``.

    Raises:
        InvalidEpisodeId: If the text has another form.
    """
    slot, slash, _ = episode.rpartition("/")
    number = number_in(episode)
    if not slash or not slot or number < 0:
        raise InvalidEpisodeId("episode", "must be a slot, a slash and a number: w0-3@5f2c/12")
    return slot, number


def number_in(episode: str) -> int:
    """Return the number in an episode id; -1 if it has none."""
    digits = episode.rpartition("/")[2]
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_AT_MOST
    return int(digits) if is_number else -1
