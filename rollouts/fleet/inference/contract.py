"""Interfaces of an inference server and of the ways to load weights into it."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import httpx

from rolldeck import safetensors
from rolldeck.wire import ReplicaReport
from rollouts.fleet.engine.engine import Answer, Prompt, Version

UPDATE_TIMEOUT: Final = httpx.Timeout(600.0, connect=10.0)
NOTHING: Final[Version] = (0, -2)


class InferenceFailed(RuntimeError):
    """The server failed or refused a request; the text contains the reason."""


class InferenceServer(Protocol):
    """Generator of answers; thread-safe."""

    @property
    def version(self) -> Version:
        """Epoch and step of the weights in use."""

    def generate(
        self, prompts: Sequence[Prompt], *, stop: threading.Event, timeout_seconds: float
    ) -> list[list[Answer]]:
        """Wait for the answers to all prompts, and return them in order.

        Prompts are processed concurrently. When `stop` is set, the call returns within a second,
        and unfinished answers are `cancelled`.

        Raises:
            InferenceFailed: If the server fails, or the time limit is reached.
            PromptTooLong: If a prompt leaves no room in the context.
            TokenUnknown: If a prompt has tokens outside the model's vocabulary.
        """

    def update_weights(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Use other weights from the next step on; sequences in progress continue.

        Args:
            tensors: Tensors with the names of the checkpoint (Hugging Face's for Llama and Qwen).
            version: Version of these weights.

        Raises:
            WeightsDoNotFit: If names or shapes do not match the model.
        """

    def unanswered_seconds(self) -> float:
        """Return the time for which all requests have failed; 0 if the newest succeeded."""

    def outage(self) -> str:
        """Return for how long and why requests have failed; empty if the newest succeeded."""

    def replicas(self) -> list[ReplicaReport]:
        """Return version and last contact of each replica; empty for a server in this process."""

    def wait_until_ready(self, *, timeout_seconds: float, stop: threading.Event) -> bool:
        """Wait until the server can generate; return False on timeout or stop."""

    def rest(self) -> None:
        """Put the server to sleep until the next request, if it is configured to sleep.

        Raises:
            InferenceFailed: If the server refuses or cannot be reached.
        """

    def close(self) -> None:
        """Release all resources of this interface."""


class Unreachable(InferenceFailed):
    """The server does not respond; it has not refused anything."""


class WeightsRoute(Protocol):
    """A way to load weights into a server and its replicas."""

    def current(self) -> Version:
        """Return the newest version in use; the earlier one during a change."""

    def oldest(self) -> Version:
        """Return the oldest version that a replica may use."""

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Load `tensors` into the server unless it already has this version or a later one.

        Raises:
            InferenceFailed: If the server refuses or cannot be reached.
            ReplicasBehind: If some replicas have this version and others cannot be reached.
            WeightsDoNotFit: If they do not match its model.
        """

    def repair(self) -> bool:
        """Load the version in use into replicas without it; return whether there were any.

        Raises:
            InferenceFailed: If a replica refuses or cannot be reached.
        """

    def replicas(self) -> list[ReplicaReport]:
        """Return version and last contact of each replica."""


class FixedWeights:
    """Weights of a server that is only evaluated; their version is unknown."""

    def current(self) -> Version:
        return NOTHING

    oldest = current

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        raise InferenceFailed(f"{len(tensors)} tensors of {version} for a server that is fixed")

    def repair(self) -> bool:
        return False

    def replicas(self) -> list[ReplicaReport]:
        return []


def encoded(tensors: Mapping[str, Any]) -> bytes:
    """Return torch or NumPy tensors as a safetensors file."""
    if all(hasattr(value, "__array_interface__") for value in tensors.values()):
        return safetensors.encode(tensors)
    import torch
    from safetensors.torch import save

    return save({name: torch.as_tensor(value).contiguous() for name, value in tensors.items()})


def label_of(run: str, version: Version) -> str:
    """Return the label of a version of a run's weights."""
    return f"{run}/{version[0]}/{version[1]}"


def version_in(label: str, *, run: str) -> Version | None:
    """Return the version that a label names; None for a label of another form.

    vLLM labels the weights that it loads at its start with ``default``.

    Args:
        label: Label of an answer or of a server.
        run: Name of the run; empty for an evaluation of a checkpoint without a run.

    Raises:
        ValueError: If the label names another run.
    """
    owner, *numbers = label.rsplit("/", 2)
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        return None
    if owner != run and run:
        raise ValueError(f"the weights {label!r} belong to another run than {run!r}")
    if owner != run:
        raise ValueError(f"the server has the weights {label!r} of a run, not its checkpoint's")
    return int(numbers[0]), int(numbers[1])


def owner_of(label: str) -> tuple[str, str]:
    """Return the run and the version, as in ``1/42``, of a label with a version."""
    owner, epoch, step = label.rsplit("/", 2)
    return owner, f"{epoch}/{step}"
