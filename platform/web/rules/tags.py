"""Validation of tags."""

import re
from collections.abc import Iterable
from typing import Final

from web.rules.errors import Invalid

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
