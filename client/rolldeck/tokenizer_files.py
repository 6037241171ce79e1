"""Upload of a run's tokenizer, so that the dashboard shows tokens as words.

``Trainer`` and ``GroupSender`` have the method ``set_tokenizer``::

    trainer.set_tokenizer("checkpoints/qwen3")  # a folder, a file, or a tokenizer object
"""

import hashlib
from pathlib import Path
from typing import Any, Final

from rolldeck.errors import NotFoundError
from rolldeck.http import Call, Connection, PlatformClient

FILE_NAME: Final = "tokenizer.json"


def tokenizer_json(tokenizer: Any) -> bytes:
    """Return the content of a `tokenizer.json`.

    Args:
        tokenizer: Path of the file or of a folder that contains it; a ``tokenizers.Tokenizer``; or
            a fast tokenizer of transformers.

    Raises:
        OSError: If the file cannot be read.
        TypeError: If the tokenizer has another type, or has no such file, as slow tokenizers.
    """
    if isinstance(tokenizer, str | Path):
        path = Path(tokenizer)
        return (path / FILE_NAME if path.is_dir() else path).read_bytes()
    inner = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not callable(getattr(inner, "to_str", None)):
        raise TypeError(
            f"tokenizer: {type(tokenizer).__name__} is not a path, a tokenizers.Tokenizer or a "
            "fast tokenizer of transformers"
        )
    return str(inner.to_str()).encode()


def store_tokenizer(
    connection: Connection, run_path: str, content: bytes, *, replace: bool = True
) -> str:
    """Store the tokenizer of a run unless it has the same one; return the SHA-256 of the run's.

    Args:
        connection: Connection to the platform.
        run_path: Path of the run in the API.
        content: Content of the `tokenizer.json`.
        replace: Whether to replace another tokenizer of the run.

    Raises:
        InvalidRequestError: If the platform cannot read the file.
        RolldeckError: If the platform refuses the request or is unreachable.
    """
    path = f"{run_path}/tokenizer"
    try:
        known = str(connection.json(Call(method="GET", path=path))["sha256"])
    except NotFoundError as absence:
        if absence.code != "no_tokenizer":
            raise
        known = ""
    sha256 = hashlib.sha256(content).hexdigest()
    if known == sha256 or (known and not replace):
        return known
    connection.send(Call(method="PUT", path=path, content=content, content_type="application/json"))
    return sha256


class TokenizerClient(PlatformClient):
    """Base of the clients that may store the tokenizer of their run."""

    def set_tokenizer(self, tokenizer: Any) -> str:
        """Store the run's tokenizer, with which the platform shows tokens as words.

        It replaces another one of the run. The same one is not sent again.

        Args:
            tokenizer: Path of a `tokenizer.json` or of a folder that contains it; a
                ``tokenizers.Tokenizer``; or a fast tokenizer of transformers.

        Returns:
            SHA-256 of the file.

        Raises:
            OSError: If the file cannot be read.
            TypeError: If the tokenizer has another type.
            InvalidRequestError: If the platform cannot read the file.
        """
        return store_tokenizer(self._connection, self._root, tokenizer_json(tokenizer))
