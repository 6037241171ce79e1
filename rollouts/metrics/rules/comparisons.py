"""Kind of the saved comparisons of runs."""

from typing import Final

from runs.saved.rules import SavedKind


class TooManyComparisons(Exception):
    """The limit on saved comparisons is reached."""


COMPARISON: Final = SavedKind(
    name="comparison", body="look", text="remarks", at_most=500, too_many=TooManyComparisons
)
