"""Visible texts and tags."""

import re
from collections.abc import Iterable
from typing import Final

from web.rules.errors import Invalid

# Texts of users: those that PostgreSQL stores, that a page shows, and that a spreadsheet reads.


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


# Validation of tags.

MOST_TAGS: Final = 20
_TAG: Final = re.compile(r"[a-z0-9][a-z0-9_.:/+-]{0,39}")


class InvalidTag(Invalid):
    """A tag is invalid, or there are too many."""

    field = "tags"


def checked(tags: Iterable[str]) -> list[str]:
    """Return tags in lower case, sorted and without duplicates.

    Raises:
        InvalidTag: If a tag is invalid.
    """
    found = sorted({tag.strip().lower() for tag in tags})
    for tag in found:
        if not _TAG.fullmatch(tag):
            raise InvalidTag(
                f"{tag!r} is not a valid tag: "
                "1 to 40 letters, digits or _.:/+-, a letter or digit first"
            )
    if len(found) > MOST_TAGS:
        raise InvalidTag(f"{len(found)} tags, at most {MOST_TAGS} allowed")
    return found
