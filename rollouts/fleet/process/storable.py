"""Encode messages that the platform can store, for arbitrary texts of policies and exceptions.

PostgreSQL stores neither NUL characters nor unpaired surrogates, so the platform refuses a body
that contains one. A report with such a text would be refused forever.
"""

import re
from typing import Any, Final

import msgspec

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_NUL: Final = rb"\u0000"


def to_json(message: msgspec.Struct) -> bytes:
    """Return `message` as JSON, with U+FFFD for characters that cannot be stored."""
    try:
        content = msgspec.json.encode(message)
    except UnicodeEncodeError:
        content = _NUL
    if _NUL not in content:
        return content
    return msgspec.json.encode(cleaned(msgspec.to_builtins(message)))


def cleaned(value: Any) -> Any:
    """Return JSON values with U+FFFD for characters of texts that cannot be stored."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {cleaned(key): cleaned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    return value
