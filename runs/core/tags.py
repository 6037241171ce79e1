"""Say what a tag may be."""

import re
from collections.abc import Iterable
from typing import Final

MOST_TAGS: Final = 20
_TAG: Final = re.compile(r"[a-z0-9][a-z0-9_.:/+-]{0,39}")


class InvalidTag(ValueError):
    """A tag has characters that it cannot have, or there are too many."""

    field = "tags"


def checked(tags: Iterable[str]) -> list[str]:
    """Return tags in lower case, in order and each once.

    Raises:
        InvalidTag: If one of them cannot be a tag.
    """
    found = sorted({tag.strip().lower() for tag in tags})
    for tag in found:
        if not _TAG.fullmatch(tag):
            raise InvalidTag(
                f"{tag!r} is no tag: 1 to 40 letters, digits or _.:/+-, a letter or digit first"
            )
    if len(found) > MOST_TAGS:
        raise InvalidTag(f"a run has at most {MOST_TAGS} tags")
    return found
