"""Inference servers that an administrator offers to runs.

A run names a server and never an address. The platform reads the descriptions to validate the
names. The generating process reads them on its own machine, so tokens are not transmitted.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

SETTING: Final = "ROLLDECK_INFERENCE_SERVERS"


class InvalidInferenceServers(ValueError):
    """The setting is not a valid JSON object of server descriptions."""


class InferenceServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Address, protocol and credentials of a server."""

    kind: Literal["rolldeck", "vllm", "sglang"]
    url: Annotated[str, Meta(pattern=r"^https?://\S+$")]
    """Without ``/v1``."""
    model: str = ""
    """Name of the served model; required by vLLM only."""
    token: str = ""
    """Sent as ``Authorization: Bearer``."""
    weights_directory: str = ""
    """For vLLM and SGLang: the folder of the served model, shared with the workers."""


def parse(text: str) -> dict[str, InferenceServerSettings]:
    """Parse the setting and return the servers by name.

    Args:
        text: ``{"name": {"kind": …, "url": …}}``; empty for none.

    Raises:
        InvalidInferenceServers: If the text has another form.
    """
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, InferenceServerSettings])
    except msgspec.DecodeError as error:
        raise InvalidInferenceServers(f"{SETTING}: {error}") from error
