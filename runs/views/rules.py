"""The kind of saved views, and its errors."""

from typing import Final

from runs.saved.rules import SavedKind
from web.rules.errors import Conflict


class ViewExists(Conflict):
    """A view of this name exists already."""

    code = "view_exists"
    title = "Name taken"


class TooManyViews(Conflict):
    """The limit on views is reached."""

    code = "too_many_views"
    title = "No room for another view"


VIEW: Final = SavedKind(
    name="view", body="view", at_most=50, name_taken=ViewExists, too_many=TooManyViews
)
