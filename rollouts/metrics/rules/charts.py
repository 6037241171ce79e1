"""Kinds of the saved layouts of run metrics, and of the saved comparisons of runs."""

from typing import Final

from runs.saved.rules import SavedKind
from web.rules.errors import Conflict


class LayoutExists(Conflict):
    """A layout of this name exists already."""

    code = "layout_exists"
    title = "Name taken"


class TooManyLayouts(Conflict):
    """The limit on layouts is reached."""

    code = "too_many_layouts"
    title = "No room for another layout"


LAYOUT: Final = SavedKind(
    name="layout", body="view", at_most=50, name_taken=LayoutExists, too_many=TooManyLayouts
)


class TooManyComparisons(Conflict):
    """The limit on saved comparisons is reached."""

    code = "too_many_comparisons"
    title = "No room for another comparison"


COMPARISON: Final = SavedKind(
    name="comparison", body="view", text="remarks", at_most=500, too_many=TooManyComparisons
)
