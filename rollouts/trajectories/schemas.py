"""API schemas of lists of samples of several runs."""

from buffer.inspect.schemas import SampleRow
from web.rules.pages import Page


class TrajectoryList(Page[SampleRow], frozen=True, kw_only=True):
    """Found samples of one kind."""

    is_partial: bool
    """True if the search reached its row limit: older samples may match too."""
    runs: int
    """Number of runs searched."""
    runs_left_out: int
    """Number of older runs that were not searched, because a search covers 500."""
    unindexed: int
    """Number of groups of the only run that have no digest yet, counted up to 10,000."""
    partly_searched: int
    """Number of groups with over 64,000 characters of text, counted up to 10,000.

    A search finds words at the beginning and the end of each of their messages. 0 without words,
    and on all but the first page.
    """
