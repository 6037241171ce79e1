"""Join consecutive fragments of an env slot into chunks.

A fragment usually ends inside an episode, where a value estimate replaces all later rewards. A
chunk continues over the border, so GAE and V-trace of a chunk equal those of the unbroken
trajectory, and a recurrent policy learns over more steps than a fragment has::

    arrays = stack(join(batch.fragments))  # [C, T, …], as from Batch.stack
    steps = transitions(arrays, values=…, last_values=…, final_values=…)
    learned = vtrace(steps, logprobs - arrays["behavior_logprob"], gamma=0.99, lam=0.95)

Only fragments that the trainer holds can be joined. ``buffer.replay.fragments_per_chunk`` of a run
puts that many consecutive fragments of a slot into each batch. Fragments of several batches may be
joined too, before the first of these batches is acknowledged or after.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rolldeck.batches import FINAL_OBS, FragmentView, info_names, is_per_episode
from rolldeck.errors import InvalidMessageError
from rolldeck.wire import INFO

ITEM: Final = "item"
UNREPEATED: Final = frozenset({"reward", "first", "terminated", "truncated"})
"""Arrays that are 0 in padding, as in :class:`rolldeck.wire.Fragment`; others repeat a row."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunk:
    """Consecutive steps of one env slot, without padding; T is their number.

    Attributes:
        slot: Env slot and incarnation.
        environment: Spec of its environment.
        worker: Name of its worker.
        epoch: Epoch of all policy versions that acted.
        numbers: Numbers of the fragments in the slot, without gaps.
        items: Position of each fragment in the joined sequence.
        contiguous: Whether step 0 follows the last step of fragment ``numbers[0] - 1``.
        episode_ids: Episodes of the steps, in order.
        arrays: Writable copies under the names of :class:`rolldeck.wire.Fragment`. Per step
            ``[T, …]``: ``obs``, ``action``, ``reward``, ``first``, ``terminated``, ``truncated``,
            ``behavior_logprob``, ``value``, ``policy_step``, ``episode_index`` (position in
            `episode_ids`), ``info.<key>`` of any joined fragment, NaN at the steps of those without
            it, other arrays of one row per step that every fragment has, and ``item`` int64, the
            position of the step's fragment in the joined sequence. ``next_obs […]`` is the
            observation after the last step, ``in_state.<name> […]`` the recurrent state before
            step 0. ``final_obs [K, …]`` and ``final_step [K]`` int64 are the last observations of
            the episodes that ended in the chunk, with the steps at which they ended.
    """

    slot: str
    environment: str
    worker: str
    epoch: int
    numbers: range
    items: tuple[int, ...]
    contiguous: bool
    episode_ids: tuple[str, ...]
    arrays: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.arrays[ITEM])

    @property
    def fragment_starts(self) -> NDArray[np.int64]:
        """First step of each fragment, ``[F]``, beginning with 0."""
        return _changes(self.arrays[ITEM])

    @property
    def version_starts(self) -> NDArray[np.int64]:
        """First step of each part sampled by one policy version, ``[V]``, beginning with 0."""
        return _changes(self.arrays["policy_step"])


def join(fragments: Sequence[FragmentView]) -> list[Chunk]:
    """Join the fragments of each env slot into the longest possible chunks.

    A fragment continues the one before it in its slot if its number is the next one, it is
    `contiguous`, and both are of one epoch: policy steps of different epochs are not comparable.
    Otherwise, as at a missing number or after dropped steps, a new chunk begins. A fragment
    without neighbours is a chunk of one. Padding is removed.

    Args:
        fragments: Fragments of one run in any order, of any lengths.

    Returns:
        Chunks by the first occurrence of their slot in `fragments`, then by number. Every fragment
        is in exactly one chunk.

    Raises:
        InvalidMessageError: If a fragment occurs twice; if fragments of one slot differ in
            environment or worker; or if a fragment does not continue its predecessor although it
            claims to: it overlaps it (its first observation is not the predecessor's
            ``next_obs``), begins an episode without the end of the previous one or goes on after
            an end, or differs from it in the shape of an array.
    """
    slots: dict[str, list[int]] = {}
    for item, view in enumerate(fragments):
        slots.setdefault(view.fragment.slot, []).append(item)
    info = info_names(fragments)
    return [
        _joined(fragments, items, info)
        for members in slots.values()
        for items in _runs(fragments, sorted(members, key=lambda i: fragments[i].fragment.number))
    ]


def stack(chunks: Sequence[Chunk]) -> dict[str, NDArray[Any]]:
    """Return C chunks as padded arrays, T steps wide, in the form of :meth:`Batch.stack`.

    Returns:
        Per-step arrays ``[C, T, …]``, including ``item``; ``mask [C, T]`` bool, true for real
        steps; ``next_obs`` and ``in_state.*`` ``[C, …]``; ``contiguous``, ``version_min`` and
        ``version_max [C]``; ``final_obs [K, …]``, ``final_fragment [K]`` (row of the chunk) and
        ``final_step [K]``. Padding repeats the last real step with reward and info 0 and without
        first, terminated and truncated. Arrays that some chunks lack are left out; ``info.<key>``
        is NaN in their rows instead. All are writable copies. With
        ``weights = batch.importance_weights``, ``weights[arrays["item"]]`` is the weight of each
        step.

    Raises:
        InvalidMessageError: If there are no chunks, or two differ in an array's shape per step.
    """
    if not chunks:
        raise InvalidMessageError("no chunks to stack, at least 1 required")
    shared = frozenset.intersection(*(frozenset(chunk.arrays) for chunk in chunks))
    info = {name for chunk in chunks for name in chunk.arrays if name.startswith(INFO)}
    steps = np.array([len(chunk) for chunk in chunks])
    versions = [chunk.arrays["policy_step"] for chunk in chunks]
    mask = np.arange(steps.max()) < steps[:, None]
    arrays: dict[str, NDArray[Any]] = {
        "mask": mask,
        "contiguous": np.array([chunk.contiguous for chunk in chunks]),
        "version_min": np.array([int(one.min()) for one in versions]),
        "version_max": np.array([int(one.max()) for one in versions]),
        "final_fragment": np.repeat(
            np.arange(len(chunks)), [len(chunk.arrays["final_step"]) for chunk in chunks]
        ),
    }
    for name in sorted(shared | info):
        rows = [
            chunk.arrays[name]
            if name in chunk.arrays
            else np.full(len(chunk), np.nan, dtype=np.float32)
            for chunk in chunks
        ]
        if is_per_episode(name):
            arrays[name] = _concatenated(name, rows)
        elif _is_per_chunk(name):
            _check_shapes(name, rows)
            arrays[name] = np.stack(rows)
        else:
            _check_shapes(name, rows, after_axis=1)
            padded = np.empty((*mask.shape, *rows[0].shape[1:]), dtype=np.result_type(*rows))
            for row, out in zip(rows, padded, strict=True):
                out[: len(row)] = row
                out[len(row) :] = 0 if name in UNREPEATED or name in info else row[-1]
            arrays[name] = padded
    return arrays


def _runs(fragments: Sequence[FragmentView], ordered: list[int]) -> Iterator[list[int]]:
    """Yield the items of each chunk of one slot; `ordered` is sorted by number."""
    run = ordered[:1]
    for before, after in pairwise(ordered):
        one, next_one = fragments[before].fragment, fragments[after].fragment
        if one.number == next_one.number:
            raise InvalidMessageError(
                f"fragment {one.number} of slot {one.slot} occurs twice, as items "
                f"{before} and {after}"
            )
        for name in ("environment", "worker"):
            value, next_value = getattr(one, name), getattr(next_one, name)
            if value != next_value:
                raise InvalidMessageError(
                    f"{name}: fragments {one.number} and {next_one.number} of slot {one.slot} have "
                    f"{value!r} and {next_value!r}, one slot must have one {name}"
                )
        is_next = next_one.number == one.number + 1 and next_one.contiguous
        if is_next and next_one.epoch == one.epoch:
            _check_border(fragments[before], fragments[after])
            run.append(after)
        else:
            yield run
            run = [after]
    yield run


def _check_border(view: FragmentView, next_view: FragmentView) -> None:
    """Check that the first step of a fragment follows the last step of its predecessor."""
    last = _real_steps(view) - 1
    has_ended = bool(view["terminated"][last] or view["truncated"][last])
    if has_ended and not next_view["first"][0]:
        raise _NotContinuedError(view, "first", "it continues an episode that has ended")
    if next_view["first"][0] and not has_ended:
        raise _NotContinuedError(
            view, "first", "it begins an episode before the end of the last one"
        )
    for name in sorted(name for name in view.names if name.startswith("next_obs")):
        shown, after = name.replace("next_obs", "obs", 1), view[name]
        first = next_view[shown][0] if shown in next_view else None
        if first is None or not np.array_equal(
            first, after, equal_nan=first.dtype.kind == "f" == after.dtype.kind
        ):
            raise _NotContinuedError(view, shown, f"its first observation is not the {name} there")


class _NotContinuedError(InvalidMessageError):
    """A contiguous fragment does not continue the one before it."""

    def __init__(self, view: FragmentView, name: str, message: str) -> None:
        one = view.fragment
        super().__init__(
            f"{name}: fragment {one.number + 1} of slot {one.slot} is contiguous with fragment "
            f"{one.number}, but {message}; fragments that do not continue the one before them "
            "must have contiguous=False"
        )


def _joined(fragments: Sequence[FragmentView], items: list[int], info: frozenset[str]) -> Chunk:
    views = [fragments[item] for item in items]
    lengths = np.array([_real_steps(view) for view in views])
    one, last = views[0].fragment, views[-1].fragment
    # The arrays that every fragment has for each of its steps.
    shared = frozenset.intersection(
        *(
            frozenset(name for name in view.names if view[name].shape[:1] == (view.fragment.steps,))
            for view in views
        )
    )
    arrays: dict[str, NDArray[Any]] = {}
    for name in sorted((shared | info) - {"mask"}):
        if not _is_per_chunk(name) and not is_per_episode(name):
            whole = [view.info(name) if name in info else view[name] for view in views]
            rows = [row[:length] for row, length in zip(whole, lengths, strict=True)]
            arrays[name] = _concatenated(name, rows)
    # The last observations of the ended episodes, with their steps in the chunk.
    starts = np.cumsum(lengths) - lengths
    ended = [
        (view, start) for view, start in zip(views, starts, strict=True) if "final_step" in view
    ]
    steps = [view["final_step"].astype(np.int64) + start for view, start in ended]
    arrays["final_step"] = np.concatenate([np.zeros(0, dtype=np.int64), *steps])
    for name in [name for name in views[0].names if name.startswith("next_obs")]:
        final, none = name.replace("next_obs", FINAL_OBS, 1), views[0][name][None][:0]
        arrays[final] = _concatenated(final, [none, *(view[final] for view, _ in ended)])
    episodes = {name: None for view in views for name in view.fragment.episode_ids}
    places = {name: place for place, name in enumerate(episodes)}
    arrays["episode_index"] = np.concatenate(
        [
            np.array([places[name] for name in view.fragment.episode_ids], dtype=np.int32)[
                view["episode_index"][:length]
            ]
            for view, length in zip(views, lengths, strict=True)
        ]
    )
    arrays[ITEM] = np.repeat(np.array(items, dtype=np.int64), lengths)
    # Before the first step and after the last, the states and observations of the border apply.
    arrays |= {name: views[0][name].copy() for name in one.arrays if name.startswith("in_state.")}
    arrays |= {name: views[-1][name].copy() for name in last.arrays if name.startswith("next_obs")}
    return Chunk(
        slot=one.slot,
        environment=one.environment,
        worker=one.worker,
        epoch=one.epoch,
        numbers=range(one.number, last.number + 1),
        items=tuple(items),
        contiguous=one.contiguous,
        episode_ids=tuple(places),
        arrays=arrays,
    )


def _is_per_chunk(name: str) -> bool:
    return name == "next_obs" or name.startswith(("in_state.", "next_obs."))


def _real_steps(view: FragmentView) -> int:
    """Return the number of steps that are not padding, which comes last."""
    return int(view["mask"].sum()) if "mask" in view else view.fragment.steps


def _concatenated(name: str, rows: list[NDArray[Any]]) -> NDArray[Any]:
    _check_shapes(name, rows, after_axis=1)
    return np.concatenate(rows)


def _check_shapes(name: str, rows: list[NDArray[Any]], *, after_axis: int = 0) -> None:
    shapes = {row.shape[after_axis:] for row in rows}
    if len(shapes) > 1:
        raise InvalidMessageError(f"{name}: steps of shapes {sorted(shapes)} cannot be joined")


def _changes(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the positions at which a value differs from the one before it, and position 0."""
    return np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]])).astype(np.int64)
