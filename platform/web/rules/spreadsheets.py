"""Escape text in cells against formula injection in spreadsheets."""

from typing import Final

# Spreadsheets skip the last two before they look for a formula.
_BEGINNINGS: Final = ("=", "+", "-", "@", "\t", "\r")


def plain_cell(text: str) -> str:
    """Return the text, with an apostrophe in front if a spreadsheet could read it as a formula."""
    return f"'{text}" if text.startswith(_BEGINNINGS) else text
