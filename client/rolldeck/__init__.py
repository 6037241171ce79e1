"""Client and command line of the Rolldeck platform."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rolldeck.async_trainer import AsyncTrainer as AsyncTrainer
    from rolldeck.client import Client as Client
    from rolldeck.client import Run as Run
    from rolldeck.errors import RolldeckError as RolldeckError
    from rolldeck.followers import Follower as Follower
    from rolldeck.handler import EnvironmentOffer as EnvironmentOffer
    from rolldeck.handler import RolloutHandler as RolloutHandler
    from rolldeck.sender import GroupSender as GroupSender
    from rolldeck.trainer import Trainer as Trainer

__version__ = "0.1.0"
"""Version of the client and of the server, which are released together."""
_MODULES: Final = {
    "AsyncTrainer": "async_trainer",
    "Client": "client",
    "EnvironmentOffer": "handler",
    "Follower": "followers",
    "GroupSender": "sender",
    "RolldeckError": "errors",
    "RolloutHandler": "handler",
    "Run": "client",
    "Trainer": "trainer",
}
"""Module of each public name. A name is imported when it is used: `rolldeck run ls` needs no numpy.
"""
__all__ = [*_MODULES, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'rolldeck' has no attribute {name!r}")
    return getattr(import_module(f"rolldeck.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
