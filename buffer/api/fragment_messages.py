"""API schemas of fragments."""

from msgspec import Struct

from buffer.core.fragment_views import FragmentContent
from buffer.selectors.fragment_lists import FragmentRow


class FragmentSummary(FragmentRow, frozen=True, kw_only=True):
    """A fragment without its content."""

    reward_sum: float | None
    """Null if the fragment is too large for a list or cannot be read."""


class FragmentList(Struct, frozen=True, kw_only=True):
    """Fragments with stored bytes, newest first."""

    results: list[FragmentSummary]
    next: str
    """Cursor of the next page; empty at the end."""
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
