"""Schemas of the run checks API."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType


class CheckRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/run-checks``: the run to check; `config` is merged over the preset.

    The name is checked only if given. In a project, its defaults apply as for a launch.
    """

    name: Annotated[str, Meta(max_length=200)] = ""
    project: Annotated[str, Meta(max_length=80)] = ""
    uses_project_defaults: bool = True
    preset: Annotated[str, Meta(max_length=80)] | UnsetType = UNSET
    config: dict[str, Any] = {}


class FindingRow(Struct, frozen=True, kw_only=True):
    """One result of a check; `field` is its dotted path, empty for the run as a whole."""

    level: Literal["ok", "info", "warning", "error"]
    subject: str
    field: str
    message: str
    remedy: str


class RunCheck(Struct, frozen=True, kw_only=True):
    """Results of a check; nothing was stored.

    `config` is the resolved configuration with all defaults, null if it is invalid.
    """

    result: Literal["ready", "risky", "refused"]
    config: dict[str, Any] | None
    findings: list[FindingRow]
    seconds: float
