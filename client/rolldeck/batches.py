"""Leased batches: their groups or fragments as arrays.

Arrays of fragments are views of the received message, so that decoding copies none. A view keeps
the whole message in memory.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from rolldeck.errors import InvalidMessageError
from rolldeck.group_encoding import to_json
from rolldeck.groups import JSON, MSGPACK, GroupArrays, read, read_msgpack
from rolldeck.json_groups import Bytes
from rolldeck.padding import PAD_LOGPROB, padded
from rolldeck.wire import (
    INFO,
    SCHEMA_VERSION,
    Array,
    BatchHead,
    Fragment,
    unpack_array,
)

# Fragments whose arrays are views of the received message, so that decoding copies no array.


class ReceivedArray(Array, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An :class:`Array` whose data is a view."""

    data: memoryview  # type: ignore[assignment] # a buffer, like bytes

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the array with its own bytes; a view cannot be pickled."""
        return partial(Array, dtype=self.dtype, shape=self.shape, data=bytes(self.data)), ()


class ReceivedFragment(Fragment, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A :class:`Fragment` whose arrays are views."""

    arrays: dict[str, ReceivedArray]  # type: ignore[assignment]


class ReceivedPush(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A :class:`rolldeck.wire.FragmentPush` whose fragments are views."""

    schema: int = SCHEMA_VERSION
    fragments: Annotated[list[memoryview], Meta(min_length=1, max_length=1024)]


_decode: Final = msgspec.msgpack.Decoder(ReceivedFragment).decode
_decode_push: Final = msgspec.msgpack.Decoder(ReceivedPush).decode


def decode_fragment(content: Any) -> Fragment:
    """Return the fragment in encoded bytes, or in a view of them.

    Raises:
        msgspec.MsgspecError: If they are not an encoded fragment.
    """
    return _decode(content)


def decode_push(body: bytes) -> ReceivedPush:
    """Return an encoded push, with a view of each encoded fragment.

    Raises:
        msgspec.MsgspecError: If `body` is not an encoded push.
    """
    return _decode_push(body)


# Batches that a trainer has leased.

if TYPE_CHECKING:
    import torch

FINAL_OBS: Final = "final_obs"


def is_per_episode(name: str) -> bool:
    """Return whether an array has a row for each ended episode, whose number varies."""
    return name in {"final_step", FINAL_OBS} or name.startswith(f"{FINAL_OBS}.")


class FragmentView:
    """One fragment of a batch, with arrays as read-only numpy views of the received bytes."""

    def __init__(self, fragment: Fragment) -> None:
        self.fragment = fragment
        self._views: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._views:
            self._views[name] = unpack_array(self.fragment.arrays[name])
        return self._views[name]

    def __contains__(self, name: object) -> bool:
        return name in self.fragment.arrays

    @property
    def names(self) -> frozenset[str]:
        """Names of the arrays, as :class:`rolldeck.wire.Fragment` lists them."""
        return frozenset(self.fragment.arrays)

    def info(self, name: str) -> NDArray[np.float32]:
        """Return an array ``info.<key> [T]``; NaN, and 0 in padding, if the fragment has none."""
        if name in self:
            return self[name]
        column = np.full(self.fragment.steps, np.nan, dtype=np.float32)
        if "mask" in self:
            column[~self["mask"]] = 0
        return column


def info_names(views: Iterable[FragmentView]) -> frozenset[str]:
    """Return the names of all arrays ``info.<key>`` of some fragments."""
    return frozenset(name for view in views for name in view.names if name.startswith(INFO))


class _Received(msgspec.Struct, frozen=True, kw_only=True):
    """A :class:`rolldeck.wire.BatchAnswer` whose items are views of the received bytes."""

    batch: BatchHead
    codecs: list[Literal["json", "msgpack"]] = []
    items: list[memoryview]


class Batch:
    """A leased batch: its head, and items that are decoded on first access."""

    def __init__(self, head: BatchHead, items: Sequence[Bytes], codecs: Sequence[str] = ()) -> None:
        """Store the items without decoding them.

        Args:
            head: The platform's description of the batch.
            items: The bytes of each item.
            codecs: ``json`` or ``msgpack`` for each item; by default groups are JSON.
        """
        self.head = head
        self.items = items
        self.codecs = codecs or [JSON if head.kind == "groups" else MSGPACK] * len(items)

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Return the batch in an encoded :class:`rolldeck.wire.BatchAnswer`.

        Raises:
            InvalidMessageError: If `body` is not an encoded batch.
        """
        try:
            answer = msgspec.msgpack.decode(body, type=_Received)
        except msgspec.DecodeError as error:
            raise InvalidMessageError(f"not a batch: {error}") from error
        if answer.codecs and len(answer.codecs) != len(answer.items):
            counts = f"{len(answer.codecs)} codecs for {len(answer.items)} items"
            raise InvalidMessageError(f"not a batch: {counts}")
        return cls(answer.batch, answer.items, answer.codecs)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def importance_weights(self) -> NDArray[np.float32]:
        """Weight of each item in the loss, ``[N]``, with a maximum of 1.

        All are 1 unless the run's sampler is ``prioritized``.
        """
        weights = self.head.importance_weights
        return np.asarray(weights or [1.0] * len(self), dtype=np.float32)

    def __repr__(self) -> str:
        return f"<Batch {self.head.ordinal}: {len(self)} {self.head.kind}, fence {self.head.fence}>"

    @cached_property
    def fragments(self) -> tuple[FragmentView, ...]:
        """The items of a fleet run's batch.

        Raises:
            InvalidMessageError: If the items are trajectory groups, or damaged.
        """
        if self.head.kind != "fragments":
            raise InvalidMessageError("a batch of trajectory groups has no fragments; use groups")
        try:
            decoded = [decode_fragment(item) for item in self.items]
        except msgspec.DecodeError as error:
            raise InvalidMessageError(f"not a fragment: {error}") from error
        return tuple(FragmentView(fragment) for fragment in decoded)

    @cached_property
    def groups(self) -> tuple[dict[str, Any], ...]:
        """The items of an outside run's batch, in the format of Atropos' ``/batch``.

        Raises:
            InvalidMessageError: If the items are fragments.
        """
        self._check_groups()
        texts = [
            item if codec == JSON else to_json(read_msgpack(item))
            for codec, item in zip(self.codecs, self.items, strict=True)
        ]
        return tuple(msgspec.json.decode(text) for text in texts)

    @cached_property
    def group_arrays(self) -> tuple[GroupArrays, ...]:
        """The items of an outside run's batch as arrays, from either codec.

        Raises:
            InvalidMessageError: If the items are fragments, or damaged.
        """
        self._check_groups()
        pairs = zip(self.items, self.codecs, strict=True)
        return tuple(read(item, codec) for item, codec in pairs)

    def _check_groups(self) -> None:
        if self.head.kind != "groups":
            raise InvalidMessageError(
                "a batch of fragments has no trajectory groups; use fragments"
            )

    def padded(
        self,
        *,
        pad_token_id: int = 0,
        length: int | None = None,
        multiple_of: int = 1,
        pad_logprob: float = PAD_LOGPROB,
        temperature: float = 1.0,
    ) -> dict[str, NDArray[Any]]:
        """Return a batch of groups as arrays of its B sequences, T tokens wide.

        Args:
            pad_token_id: Padding token after the end of a sequence.
            length: T; by default the longest sequence's length.
            multiple_of: Without `length`, T is rounded up to a multiple of this.
            pad_logprob: Log probability of padding; 1.0 as in Atropos' own trainer, a value that
                no token has.
            temperature: Temperature of sequences whose group states none.

        Returns:
            ``tokens [B, T]`` int32; ``masks [B, T]`` int32, the labels: a token id, or -100 for
            untrained tokens and padding; ``attention_mask [B, T]`` bool; ``scores [B]`` float32;
            ``lengths [B]``, ``group_index [B]`` (position in the batch) and ``env_ids [B]`` (-1
            for none) int32; ``zero_advantage [B]`` bool and ``temperature [B]`` float32, as
            stated in the group (:mod:`rolldeck.groups`). If any group has them,
            ``ref_logprobs`` and ``inference_logprobs [B, T]``, ``advantages`` (``[B]`` if every
            group has one for each sequence, otherwise ``[B, T]``, 0 in the padding and where
            `zero_advantage` is set) and ``distill_logprobs [B, T, K]`` float32, and
            ``distill_token_ids [B, T, K]`` int32 (-100 in the padding), each with a
            ``has_… [B]`` bool: false for sequences whose group lacks it. Nothing is shifted:
            column t of every array is token t. All are writable copies.

        Raises:
            InvalidMessageError: If the items are fragments, a sequence is longer than `length`, or
                rows of one sequence differ in length, which only a lenient run accepts.
        """
        return padded(
            self.group_arrays,
            pad_token_id=pad_token_id,
            length=length,
            multiple_of=multiple_of,
            pad_logprob=pad_logprob,
            temperature=temperature,
        )

    def to_torch(
        self, device: "str | torch.device" = "cpu", *, pad_to_multiple: int = 1
    ) -> "dict[str, torch.Tensor]":
        """Return the arrays of :meth:`padded`, or of :meth:`stack`, as tensors.

        Args:
            device: Device of the tensors; those for a GPU are copied from pinned memory.
            pad_to_multiple: Sequences are padded to a multiple of this; ignored for fragments.

        Returns:
            ``tokens``, ``masks``, ``distill_token_ids``, ``group_index`` and ``env_ids`` as int64,
            so that they index embeddings and serve as labels of a cross-entropy; the others in
            their own type.

        Raises:
            InvalidMessageError: As `padded` and `stack`, or if torch has no such type.
            ImportError: If torch is not installed.
        """
        from rolldeck.torch_tensors import tensors_of  # the client runs without torch

        is_groups = self.head.kind == "groups"
        arrays = self.padded(multiple_of=pad_to_multiple) if is_groups else self.stack()
        return tensors_of(arrays, device=device)

    def stack(self) -> dict[str, NDArray[Any]]:
        """Return the batch as arrays of its N fragments of T steps each.

        Returns:
            Per-step arrays ``[N, T, …]`` and per-fragment arrays ``[N, …]`` (``next_obs``,
            ``in_state.*``, ``contiguous``, ``version_min``, ``version_max``) under the names of
            :class:`rolldeck.wire.Fragment`. The K episodes that ended anywhere in the batch are
            ``final_obs [K, …]``, ``final_fragment [K]`` and ``final_step [K]``, int64: row k is
            the last observation of the episode that ended in step ``final_step[k]`` of fragment
            ``final_fragment[k]``. Composed observations come as ``obs.<part>``,
            ``next_obs.<part>`` and ``final_obs.<part>``. ``mask [N, T]`` bool is true for real
            steps; the rest is padding and must not be trained on. The last real step of a padded
            fragment ended its episode, so no advantage needs a later step. Arrays that some
            fragments lack are left out; ``info.<key>`` is NaN in their rows instead. All are
            writable copies.

        Raises:
            InvalidMessageError: If two fragments differ in length or in an array's shape.
        """
        views = self.fragments
        shared = frozenset.intersection(*(view.names for view in views)) - {"mask"}
        arrays: dict[str, NDArray[Any]] = {}
        info = info_names(views)
        for name in sorted(name for name in shared | info if not is_per_episode(name)):
            rows = [view.info(name) if name in info else view[name] for view in views]
            shapes = {row.shape for row in rows}
            if len(shapes) > 1:
                message = f"{name}: fragments of shapes {sorted(shapes)} cannot be stacked"
                raise InvalidMessageError(message)
            arrays[name] = np.stack(rows)
        arrays["mask"] = np.stack(
            [
                view["mask"] if "mask" in view else np.ones(view.fragment.steps, dtype=np.bool_)
                for view in views
            ]
        )
        arrays["contiguous"] = np.array([view.fragment.contiguous for view in views])
        arrays["version_min"] = np.array([view.fragment.version_min for view in views])
        arrays["version_max"] = np.array([view.fragment.version_max for view in views])
        # The episodes that ended anywhere in the batch.
        ended = [(n, v) for n, v in enumerate(views) if "final_step" in v.names]
        steps = [view["final_step"].astype(np.int64) for _, view in ended]
        owners = [np.full(len(view["final_step"]), n, dtype=np.int64) for n, view in ended]
        empty = np.zeros(0, dtype=np.int64)
        arrays["final_fragment"] = np.concatenate([empty, *owners])
        arrays["final_step"] = np.concatenate([empty, *steps])
        first = views[0]
        for name in [name for name in first.names if name.startswith("next_obs")]:
            final = name.replace("next_obs", FINAL_OBS, 1)
            none = np.zeros((0, *first[name].shape), dtype=first[name].dtype)
            arrays[final] = np.concatenate([none, *(view[final] for _, view in ended)])
        return arrays
