"""Shape what is answered about the fragments of a run."""

from datetime import datetime

from msgspec import Struct

from buffer.inspect.rules.fragment_views import FragmentContent


class FragmentRow(Struct, frozen=True):
    """A fragment without its content."""

    id: int
    slot: str
    """Env slot and incarnation."""
    number: int
    """Counts the fragments of its slot from 0."""
    contiguous: bool
    environment: str
    worker: str
    epoch: int
    version_min: int
    version_max: int
    """Versions that acted in it."""
    steps: int
    """Env steps, padding not counted."""
    state: str
    drop_reason: str
    batch: str | None
    step: int | None
    """Of its batch: the train step."""
    uses: int
    """Batches that it was sampled into."""
    received_at: datetime
    size_bytes: int
    has_bytes: bool
    """Bytes were kept; whether retention left them is known when they are asked for."""


class FragmentSummary(FragmentRow, frozen=True, kw_only=True):
    """A fragment without its content."""

    reward_sum: float | None
    """Null: it is too large for a list, or cannot be read."""


class FragmentList(Struct, frozen=True, kw_only=True):
    """Fragments that kept their bytes, newest first."""

    results: list[FragmentSummary]
    next: str
    """Cursor of the next page; empty at the end."""
    is_partial: bool
    """So many were looked through that the page ends early."""


class FragmentDetail(Struct, frozen=True, kw_only=True):
    """A fragment, what is in it but for its steps, and what stands around it."""

    fragment: FragmentSummary
    content: FragmentContent | None
    problem: str
    """Why the content is null: its bytes are gone, or are no fragment."""
    version: int | None
    """Id of the newest weights that acted in it, where they are known."""
    before: int | None
    """The fragment of the same slot right before it."""
    after: int | None
