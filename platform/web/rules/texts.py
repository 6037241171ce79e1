"""Texts of users: those that PostgreSQL stores, that a page shows, and that a spreadsheet reads."""

import re
from typing import Final


def storable(text: str) -> str:
    """Replace NUL and lone surrogates, which PostgreSQL rejects."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


_DECEPTIVE: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e01ef]"
)


def visible(text: str) -> str:
    """Replace control and direction characters by their code point: ``⟨U+202E⟩``.

    Tabs and line ends stay.
    """
    return _DECEPTIVE.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


# Spreadsheets skip the last two before they look for a formula.
_BEGINNINGS: Final = ("=", "+", "-", "@", "\t", "\r")


def plain_cell(text: str) -> str:
    """Return the text, with an apostrophe in front if a spreadsheet could read it as a formula."""
    return f"'{text}" if text.startswith(_BEGINNINGS) else text
