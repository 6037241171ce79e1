"""Write JSON that the platform can keep, whatever a policy or an exception has written into it.

PostgreSQL keeps no NUL character and no half of a surrogate pair, and the platform refuses a body
that holds one: a report with such a message would be refused again and again.
"""

import re
from typing import Any, Final

import msgspec

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_NUL: Final = rb"\u0000"


def to_json(message: msgspec.Struct) -> bytes:
    """Return `message` as JSON, a replacement character for each that cannot be kept."""
    try:
        content = msgspec.json.encode(message)
    except UnicodeEncodeError:
        content = _NUL
    if _NUL not in content:
        return content
    return msgspec.json.encode(_cleaned(msgspec.to_builtins(message)))


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    return value
