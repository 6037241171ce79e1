"""Argument checks. Errors name the argument, its value and the accepted values."""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Final

MOST_EXAMPLES: Final = 100_000
"""Maximum number of problems of a call, and of answers to each."""
SEEDS_END: Final = 1 << 31
"""Exclusive upper limit of seeds."""
NUMBERS_END: Final = 1 << 53
"""Exclusive upper limit of the numbers of problems."""


class InvalidArgument(ValueError):
    """An argument of a call is invalid; `argument` is its name."""

    def __init__(self, argument: str, value: object, accepted: str) -> None:
        shown = repr(value)
        shown = shown if len(shown) <= 80 else f"{shown[:79]}…"
        super().__init__(f"{argument}: {shown} is invalid; accepted: {accepted}")
        self.argument = argument


def whole(argument: str, value: Any, *, least: int, most: int) -> int:
    """Return a whole number in a range.

    Raises:
        InvalidArgument: If it is no integer, or outside.
    """
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or not least <= int(value) <= most:
        raise InvalidArgument(argument, value, f"a whole number from {least} to {most:,}")
    return int(value)


def count(argument: str, value: Any) -> int:
    """Return a number of problems or answers."""
    return whole(argument, value, least=1, most=MOST_EXAMPLES)


def one_of(argument: str, value: Any, choices: Sequence[str]) -> str:
    """Return one of some texts.

    Raises:
        InvalidArgument: If it is none of them.
    """
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgument(argument, value, ", ".join(map(repr, choices)))
    return value


def seconds(argument: str, value: Any) -> float:
    """Return a finite number of seconds, 0 or more.

    Raises:
        InvalidArgument: If it is no such number.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise InvalidArgument(argument, value, "a finite number of seconds, 0 or more")
    return float(value)
