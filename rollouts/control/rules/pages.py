"""Limits of the pages of a list."""

from typing import Final

ROWS_AT_MOST: Final = 2000
