"""Sanitized, bounded text from arbitrary bytes that a process wrote.

Environment output is shown to users in a browser or a terminal: escape sequences are removed, and
every other control character is shown as one replacement character.
"""

import re
from collections.abc import Iterable
from typing import Final

LINES_AT_MOST: Final = 1000
LINE_CHARACTERS: Final = 2000
NEWEST_CHARACTERS: Final = 240
"""Maximum length of the one line included in every report."""
TAIL_BYTES: Final = 1 << 18
"""Bytes read from the end of a log, regardless of line lengths."""

# ECMA-48: CSI with its parameters, OSC and other strings up to their end, and two-byte escapes.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]?"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def clean(line: str) -> str:
    """Return a line without escape sequences and control characters, at most LINE_CHARACTERS long.

    Of a line overwritten with carriage returns, the last state is kept.
    """
    drawn = line.rstrip("\r\n").rpartition("\r")[2]
    shown = _CONTROLS.sub("\ufffd", _ESCAPES.sub("", drawn[: 4 * LINE_CHARACTERS]))
    left_out = len(shown) - LINE_CHARACTERS + max(0, len(drawn) - 4 * LINE_CHARACTERS)
    if left_out > 0:
        return f"{shown[:LINE_CHARACTERS]} … {left_out} characters left out"
    return shown


def clean_lines(lines: Iterable[str], *, most: int = LINES_AT_MOST) -> list[str]:
    """Return the last `most` of `lines`, each as :func:`clean` leaves it."""
    kept = list(lines)[-most:] if most > 0 else []
    return [clean(line) for line in kept]


def newest(raw: bytes) -> str:
    """Return the last non-empty line of a log's end, at most NEWEST_CHARACTERS of it."""
    for line in reversed(raw.decode("utf-8", errors="replace").split("\n")):
        shown = clean(line).strip()
        if shown:
            return (
                shown if len(shown) <= NEWEST_CHARACTERS else f"{shown[: NEWEST_CHARACTERS - 1]}…"
            )
    return ""


def last_lines(raw: bytes, *, lines: int, is_whole: bool) -> list[str]:
    """Return the last lines of a log's end.

    Args:
        raw: The end of the log; bytes that are not UTF-8 become replacement characters.
        lines: Maximum number of lines.
        is_whole: Whether `raw` is the entire log. Otherwise it may begin inside a line, which is
            omitted unless it is the only one.
    """
    found = raw.decode("utf-8", errors="replace").split("\n")
    if found[-1] == "":
        found.pop()
    if not is_whole and len(found) > 1:
        found = found[1:]
    return clean_lines(found, most=min(lines, LINES_AT_MOST))
