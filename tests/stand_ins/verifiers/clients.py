"""The client that environments query."""

from abc import ABC, abstractmethod
from typing import Any

from verifiers.errors import Error, ModelError


class Client(ABC):
    """Client that converts messages to server requests, and answers to messages."""

    def __init__(self, client_or_config: Any) -> None:
        self._client = client_or_config

    @abstractmethod
    def setup_client(self, config: Any) -> Any: ...

    @abstractmethod
    async def to_native_tool(self, tool: Any) -> Any: ...

    @abstractmethod
    async def to_native_prompt(self, messages: Any) -> tuple[Any, dict[str, Any]]: ...

    @abstractmethod
    async def get_native_response(
        self, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **kwargs: Any
    ) -> Any: ...

    @abstractmethod
    async def raise_from_native_response(self, response: Any) -> None: ...

    @abstractmethod
    async def from_native_response(self, response: Any) -> Any: ...

    @abstractmethod
    async def close(self) -> None: ...

    async def get_response(
        self, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **kwargs: Any
    ) -> Any:
        """Return the answer to a prompt; exceptions of clients become `ModelError`."""
        try:
            native, more = await self.to_native_prompt(prompt)
            response = await self.get_native_response(
                native, model, sampling_args, tools, **more, **kwargs
            )
            await self.raise_from_native_response(response)
            return await self.from_native_response(response)
        except Error:
            raise
        except Exception as error:
            raise ModelError from error
