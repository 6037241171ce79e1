"""Tags and the note of a group."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from web.rules.errors import InvalidField

MOST_TAGS: Final = 20
LONGEST_TAG: Final = 64
LONGEST_NOTE: Final = 2000
MOST_AT_ONCE: Final = 200
"""Maximum number of groups that one request marks or discards."""


class InvalidMark(InvalidField):
    """A mark is invalid; `field` names the part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Tags, in order, and note of a group."""

    tags: tuple[str, ...] = ()
    note: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether it is blank, so that no row is needed."""
        return self == Mark()


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkChange:
    """Change to the marks of groups."""

    add_tags: frozenset[str] = frozenset()
    remove_tags: frozenset[str] = frozenset()
    note: str | None = None
    """The new note; None keeps the old one."""

    @classmethod
    def checked(
        cls, *, add_tags: Iterable[str] = (), remove_tags: Iterable[str] = (), note: str | None
    ) -> "MarkChange":
        """Return a validated and normalised change.

        Raises:
            InvalidMark: If there is no change, a tag is invalid, or the note is too long.
        """
        made = cls(
            add_tags=_tags("add_tags", add_tags),
            remove_tags=_tags("remove_tags", remove_tags),
            note=None if note is None else note.strip(),
        )
        if made == cls():
            raise InvalidMark("add_tags", "add_tags, remove_tags or note is required")
        if both := made.add_tags & made.remove_tags:
            raise InvalidMark("remove_tags", f"{min(both)!r} is also in add_tags")
        if made.note and (len(made.note) > LONGEST_NOTE or "\x00" in made.note):
            raise InvalidMark("note", f"must have at most {LONGEST_NOTE} characters, without NUL")
        return made

    def applied(self, mark: Mark) -> Mark:
        """Return a mark after the change.

        Raises:
            InvalidMark: If it has too many tags.
        """
        tags = sorted({*mark.tags, *self.add_tags} - self.remove_tags)
        if len(tags) > MOST_TAGS:
            raise InvalidMark("add_tags", f"{len(tags)} tags on one group, at most {MOST_TAGS}")
        return Mark(tags=tuple(tags), note=mark.note if self.note is None else self.note)

    def __str__(self) -> str:
        words = [f"+{tag}" for tag in sorted(self.add_tags)]
        words += [f"-{tag}" for tag in sorted(self.remove_tags)]
        if self.note is not None:
            words.append("a note" if self.note else "no note")
        return ", ".join(words)


def _tags(field: str, tags: Iterable[str]) -> frozenset[str]:
    found = frozenset(" ".join(tag.split()) for tag in tags)
    for tag in sorted(found):
        # Quotes enclose values in filters.
        if not 1 <= len(tag) <= LONGEST_TAG or not tag.isprintable() or '"' in tag:
            raise InvalidMark(
                field,
                f"{tag[: LONGEST_TAG + 1]!r} is not a tag: "
                f'1 to {LONGEST_TAG} printable characters without "',
            )
    if len(found) > MOST_TAGS:
        raise InvalidMark(field, f"{len(found)} tags, at most {MOST_TAGS}")
    return found
