"""Kind of the saved layouts of run metrics."""

from typing import Final

from runs.saved.rules import SavedKind


class LayoutExists(Exception):
    """A layout of this name exists already."""


class TooManyLayouts(Exception):
    """The limit on layouts is reached."""


LAYOUT: Final = SavedKind(
    name="layout", body="look", at_most=50, name_taken=LayoutExists, too_many=TooManyLayouts
)
