"""Message classes: their preparation before several threads decode them, and their errors."""

from contextlib import suppress

from msgspec import Struct
from msgspec.json import Decoder


def prepare_structs() -> int:
    """Build msgspec's description of every Struct class defined so far; return their number.

    msgspec builds it at the first decode of a class. Two threads that do so at the same time may
    end the process with a segmentation fault (msgspec 0.22). 472 classes take 16 ms.
    """
    found: set[type[Struct]] = set()
    pending: list[type[Struct]] = [Struct]
    while pending:
        new = set(pending.pop().__subclasses__()) - found
        found |= new
        pending += new
    for kind in found:
        with suppress(TypeError):  # a class of another package with fields that JSON lacks
            Decoder(kind)
    return len(found)


def message_and_path(error: Exception) -> tuple[str, str]:
    """Return the message of an error of msgspec, and the path of the value: ``.fields[0]``.

    The path is empty for the whole value; the path of a wrong key is that of its mapping.
    """
    message, _, path = str(error).partition(" - at ")
    return message, path.rpartition("`key` in ")[2].strip("`").removeprefix("$")
