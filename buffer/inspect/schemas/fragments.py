"""API schemas of fragments."""

from datetime import datetime

from msgspec import Struct

from buffer.inspect.rules.fragment_views import FragmentContent
from web.rules.pages import Page


class FragmentRow(Struct, frozen=True):
    """A fragment without its content."""

    id: int
    slot: str
    """Environment slot and incarnation."""
    number: int
    """Counts the fragments of its slot from 0."""
    contiguous: bool
    environment: str
    worker: str
    epoch: int
    version_min: int
    version_max: int
    """`version_min` to `version_max`: the policy versions that acted in it."""
    steps: int
    """Environment steps, without padding."""
    state: str
    drop_reason: str
    batch: str | None
    step: int | None
    """Ordinal of its batch, which is the train step."""
    uses: int
    """Number of batches that it was sampled into."""
    received_at: datetime
    size_bytes: int
    has_bytes: bool
    """True if bytes were stored; retention may have removed them since."""


class FragmentSummary(FragmentRow, frozen=True, kw_only=True):
    """A fragment without its content."""

    reward_sum: float | None
    """Null if the fragment is too large for a list or cannot be read."""


class FragmentList(Page[FragmentSummary], frozen=True, kw_only=True):
    """Fragments with stored bytes, newest first."""

    is_partial: bool
    """True if the page ends early because the search reached its row limit."""


class FragmentDetail(Struct, frozen=True, kw_only=True):
    """A fragment with its content, except its steps, and its neighbours."""

    fragment: FragmentSummary
    content: FragmentContent | None
    problem: str
    """Reason why the content is null: its bytes are gone or not a valid fragment."""
    version: int | None
    """Id of the newest policy version that acted in it; null if not on record."""
    before: int | None
    """Id of the previous fragment of the same slot."""
    after: int | None
