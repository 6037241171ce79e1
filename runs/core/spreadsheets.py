"""Write text into a cell so that no spreadsheet takes it for a formula."""

from typing import Final

# The last two are passed over before a formula is looked for.
_BEGINNINGS: Final = ("=", "+", "-", "@", "\t", "\r")


def plain_cell(text: str) -> str:
    """Return a text with an apostrophe before it where it would be reckoned with."""
    return f"'{text}" if text.startswith(_BEGINNINGS) else text
