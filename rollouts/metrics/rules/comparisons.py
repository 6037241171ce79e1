"""Kind of the saved comparisons of runs."""

from typing import Final

from runs.saved.rules import SavedKind
from web.rules.errors import Conflict


class TooManyComparisons(Conflict):
    """The limit on saved comparisons is reached."""

    code = "too_many_comparisons"
    title = "No room for another comparison"


COMPARISON: Final = SavedKind(
    name="comparison", body="view", text="remarks", at_most=500, too_many=TooManyComparisons
)
