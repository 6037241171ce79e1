"""Describe the inference servers that an administrator offers to runs.

A run says a name and never an address. The platform reads the descriptions to know which names
there are; whoever generates reads them on its own machine, so that no token travels.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

SETTING: Final = "ROLLDECK_INFERENCE_SERVERS"


class InvalidInferenceServers(ValueError):
    """The setting is no JSON object of such descriptions; the text says where."""


class InferenceServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a server is and what it speaks."""

    kind: Literal["rolldeck", "vllm", "sglang"]
    url: Annotated[str, Meta(pattern=r"^https?://\S+$")]
    """Without ``/v1``."""
    model: str = ""
    """Name under which it serves; only vLLM insists on it."""
    token: str = ""
    """Sent as ``Authorization: Bearer``."""
    weights_directory: str = ""
    """For vLLM and SGLang: the folder they were started on, shared with the workers."""


def parse(text: str) -> dict[str, InferenceServerSettings]:
    """Return the servers by name.

    Args:
        text: ``{"name": {"kind": …, "url": …}}``; empty for none.

    Raises:
        InvalidInferenceServers: If it is something else.
    """
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, InferenceServerSettings])
    except msgspec.DecodeError as error:
        raise InvalidInferenceServers(f"{SETTING}: {error}") from error
