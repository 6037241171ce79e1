"""Reward functions as an administrator registers them, and faulty ones."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAMES = (
    "length",
    "level",
    "not_a_number",
    "word",
    "raises",
    "hangs",
    "ends",
    "secret",
    "hangs_once",
    "unscored",
)
KINDS = tuple(f"module:own_rewards:{name}" for name in NAMES)


def length(*, response: str, most: int = 10, **_: Any) -> float:
    return min(len(response), most) / most


def level(*, row: Mapping[str, Any], **_: Any) -> float:
    return float(row["level"])


def not_a_number(**_: Any) -> float:
    return float("nan")


def unscored(**_: Any) -> None:
    """Score no answer."""


def word(**_: Any) -> Any:
    return "good"


def raises(**_: Any) -> float:
    raise ZeroDivisionError("no reward")


def hangs(**_: Any) -> float:
    time.sleep(600)
    return 1.0


def hangs_once(*, marker: str, **_: Any) -> float:
    if not Path(marker).exists():
        Path(marker).write_text("")
        time.sleep(600)
    return 1.0


def ends(**_: Any) -> float:
    os._exit(7)


def secret(**_: Any) -> float:
    return float("ROLLDECK_INFERENCE_SERVERS" in os.environ)
