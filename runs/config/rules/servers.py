"""Inference servers and tool servers that an administrator offers to runs.

A run names a server and never an address. The platform reads the descriptions to validate the
names. The generating process reads them on its own machine, so tokens are not transmitted.

A lesson names a server and never a command. Workers start servers on their own machine, with the
Model Context Protocol over standard input and output.
"""

from typing import Annotated, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from runs.config.rules.language_config import LanguageConfig

# Inference servers that an administrator offers to runs.

INFERENCE_SERVERS: Final = "ROLLDECK_INFERENCE_SERVERS"
MOST_REPLICAS: Final = 256
Kind = Literal["rolldeck", "vllm", "sglang"]
SHARED_KINDS: Final[frozenset[Kind]] = frozenset({"vllm", "sglang"})
"""Kinds of servers that read a folder shared with the workers, load adapters, and sleep."""
Url = Annotated[str, Meta(pattern=r"^https?://\S+$")]


class InvalidInferenceServers(ValueError):
    """The setting is not a valid JSON object of server descriptions."""


class InferenceServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Addresses, protocol and credentials of a server."""

    kind: Kind
    url: Url
    """Address for generation, without ``/v1``; of the server, or of a router."""
    control: Annotated[list[Url], Meta(max_length=MOST_REPLICAS)] = []
    """Address of each replica behind `url`; empty if `url` is the only one."""
    model: str = ""
    """Name of the served model; required by vLLM only."""
    token: str = ""
    """Sent as ``Authorization: Bearer``."""
    weights_directory: str = ""
    """For vLLM and SGLang: the folder of the served model, shared with the workers."""
    weight_transfer: bool = False
    """For vLLM with the backend `rolldeck`: whether it receives weights over HTTP, instead of from
    a shared folder."""
    sleep: bool = False
    """For vLLM and SGLang: whether engines sleep while no worker needs them."""

    def __post_init__(self) -> None:
        """Refuse a replica that is listed twice, and settings that the kind does not support."""
        if self.weight_transfer and (self.kind != "vllm" or self.weights_directory):
            raise ValueError("weight_transfer: requires the kind vllm, without weights_directory")
        if self.sleep and not (self.kind in SHARED_KINDS and self.weights_directory):
            raise ValueError("sleep: requires weights_directory, and the kind vllm or sglang")
        known = set[str]()
        for at, url in enumerate(self.control):
            if url.rstrip("/") in known:
                raise ValueError(f"control[{at}]: {url} is listed twice")
            known.add(url.rstrip("/"))

    @property
    def replicas(self) -> list[str]:
        """Addresses at which weights are replaced, one for each replica."""
        return self.control or [self.url]


class OfferedServer(NamedTuple):
    """Kind and port of a server, which the platform shows."""

    kind: Kind
    port: int
    """Port of its URL."""


def unsupported(language: LanguageConfig, *, kind: str) -> tuple[str, str] | None:
    """Return the path of a field that a kind of server cannot train with, and the reason.

    The log probabilities of vLLM are those after top-p and top-k. A policy gradient needs those
    before.

    Args:
        language: Settings of a language run.
        kind: Kind of its server; empty if its workers generate themselves.
    """
    rank = language.model.adapter.rank
    if rank and kind not in SHARED_KINDS:
        reason = f"{rank}: adapters require an inference server of the kind vllm or sglang"
        return "language.model.adapter.rank", reason
    if rank and not language.model.checkpoint:
        return "language.model.checkpoint", "an adapter requires the checkpoint that it adapts"
    for name, lesson in language.lessons.items() if kind == "vllm" else ():
        for field, neutral in (("top_p", 1), ("top_k", 0)):
            value = getattr(lesson.sampling, field)
            if value != neutral:
                reason = (
                    f"{value} changes the log probabilities that vLLM reports; use {neutral} or "
                    "another kind of inference server"
                )
                return f"language.lessons.{name}.sampling.{field}", reason
    return None


def parse_inference_servers(text: str) -> dict[str, InferenceServerSettings]:
    """Parse the setting and return the servers by name.

    Args:
        text: ``{"name": {"kind": …, "url": …}}``; empty for none.

    Raises:
        InvalidInferenceServers: If the text has another form.
    """
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, InferenceServerSettings])
    except msgspec.DecodeError as error:
        raise InvalidInferenceServers(f"{INFERENCE_SERVERS}: {error}") from error


def offered(text: str) -> dict[str, OfferedServer]:
    """Parse the setting and return the kind and port of each server, by name.

    Raises:
        InvalidInferenceServers: If the text has another form, or a port is invalid.
    """
    servers = {}
    for name, server in parse_inference_servers(text).items():
        try:
            address = urlsplit(server.url)
            port = address.port or (443 if address.scheme == "https" else 80)
        except ValueError as error:
            raise InvalidInferenceServers(f"{INFERENCE_SERVERS}: {name}.url: {error}") from error
        servers[name] = OfferedServer(server.kind, port)
    return servers


# Tool servers that an administrator offers to lessons.

TOOL_SERVERS: Final = "ROLLDECK_TOOL_SERVERS"


class InvalidToolServers(ValueError):
    """The setting is not a valid JSON object of server descriptions."""


class ToolServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Command of a server."""

    command: Annotated[str, Meta(min_length=1)]
    args: list[str] = []
    env: dict[str, str] = {}
    """Variables of the server, besides PATH, HOME and a few others."""


def parse_tool_servers(text: str) -> dict[str, ToolServerSettings]:
    """Parse the setting and return the servers by name.

    Args:
        text: ``{"name": {"command": …, "args": […]}}``; empty for none.

    Raises:
        InvalidToolServers: If the text has another form.
    """
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, ToolServerSettings])
    except msgspec.DecodeError as error:
        raise InvalidToolServers(f"{TOOL_SERVERS}: {error}") from error
