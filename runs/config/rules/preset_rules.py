"""Access rules of saved presets, and the detection of secrets in them."""

import re
from collections.abc import Iterator
from typing import Any, Final

from runs.saved.rules import Access, SavedKind
from web.rules.errors import Conflict, Invalid

_WORD_STARTS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-.\s]+")
_SECRET_NAME: Final = re.compile(
    r"(?:^|_)(?:pass(?:word|wd|phrase)|secret(?:_key)?|credentials?|api_?key|access_?key"
    r"|private_?key|authorization)$"
)
# Text tokens also have such names (`eos_token`): only values that look random count.
_TOKEN_NAME: Final = re.compile(r"(?:^|_)(?:token|bearer)$")
_RANDOM: Final = re.compile(r"[A-Za-z0-9_\-.=+/]{16,}")
_SECRET_VALUE: Final = re.compile(
    r"^(?:sk-|hf_|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AKIA[0-9A-Z]{12}|rd_[0-9a-f]{8}_"
    r"|bearer\s+|basic\s+)\S{8,}|-----BEGIN [A-Z ]*PRIVATE KEY|://[^/\s:@]+:[^/\s@]+@",
    re.IGNORECASE,
)
_VARIABLE: Final = re.compile(r"\$\{?\w+\}?")
_UID_PREFIX: Final = "preset_"
_UID: Final = re.compile(rf"{_UID_PREFIX}([0-9a-f]{{24}})")
"""Form of the immutable id of a saved preset; no name has it."""


class InvalidPresetName(Invalid):
    """The name has the form of an id."""

    field = "name"


class PresetExists(Conflict):
    """A preset has this name."""

    code = "preset_exists"
    title = "Name taken"
    field = "name"


PRESET: Final = SavedKind(name="preset", body="config", text="description", name_taken=PresetExists)


def uid_of(key: str) -> str:
    """Return the immutable id of a preset whose row has the uid `key`."""
    return _UID_PREFIX + key


def lookup_of(address: str) -> dict[str, str]:
    """Return the column and the value of a preset with this name or id."""
    found = _UID.fullmatch(address)
    return {"uid": found[1]} if found else {"name": address}


def check_name(name: str) -> None:
    """Check that a preset may have this name.

    Raises:
        InvalidPresetName: If it has the form of an id.
    """
    if _UID.fullmatch(name):
        raise InvalidPresetName(
            "must not have the form of a preset's id: preset_ and 24 hexadecimal digits"
        )


def may_see(access: str, *, is_owner: bool) -> bool:
    """Return whether a user may see and start from a preset."""
    return is_owner or access != Access.PRIVATE


def may_change(access: str, *, is_owner: bool, is_operator: bool, is_admin: bool) -> bool:
    """Return whether a user may change or delete a preset."""
    if not may_see(access, is_owner=is_owner) or not is_operator:
        return False
    return is_owner or is_admin or access == Access.OPEN


def secret_in(config: dict[str, Any]) -> str | None:
    """Return the path of the first text whose name or value looks like a secret, or None."""
    return next(_secrets(config, ""), None)


def _secrets(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _secrets(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _secrets(item, f"{path}[{index}]")
    elif isinstance(value, str) and _is_secret(path, value):
        yield path


def _is_secret(path: str, text: str) -> bool:
    if not text.strip() or _VARIABLE.fullmatch(text.strip()):
        return False
    last = re.sub(r"\[\d+\]$", "", path).rpartition(".")[2]
    name = _WORD_STARTS.sub("_", last).lower()
    if _SECRET_NAME.search(name) or _SECRET_VALUE.search(text):
        return True
    return bool(_TOKEN_NAME.search(name) and _RANDOM.fullmatch(text))
