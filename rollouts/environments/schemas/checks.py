"""Shape what is asked and answered about a run that is not launched yet."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct


class CheckRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/run-checks``: what would be launched; `config` is laid over the preset.

    Without a name the name is not looked at.
    """

    name: Annotated[str, Meta(max_length=200)] = ""
    preset: Annotated[str, Meta(max_length=80)] = ""
    config: dict[str, Any] = {}


class FindingRow(Struct, frozen=True, kw_only=True):
    """One thing that was looked at; `field` is its dotted path, empty for the run as a whole."""

    level: Literal["ok", "info", "warning", "error"]
    subject: str
    field: str
    message: str
    remedy: str


class RunCheck(Struct, frozen=True, kw_only=True):
    """What a check found; nothing was stored.

    `config` is the resolved configuration with every default, null if it is none.
    """

    verdict: Literal["ready", "risky", "refused"]
    config: dict[str, Any] | None
    findings: list[FindingRow]
    seconds: float
