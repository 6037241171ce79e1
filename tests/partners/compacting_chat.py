"""Harness of verifiers that replaces its history after the first turn."""

from typing import Any

import verifiers.v1 as vf
from openai import AsyncOpenAI
from verifiers.v1.clients import ModelContext
from verifiers.v1.configs.harness import HarnessConfig
from verifiers.v1.harness import Harness
from verifiers.v1.runtimes import ProgramResult, Runtime

__all__ = ["CompactingChatHarness"]


class CompactingChatHarnessConfig(HarnessConfig):
    """Configuration of the harness: that of every harness."""


class CompactingChatHarness(Harness[CompactingChatHarnessConfig]):
    """Three turns: the task, then a conversation of two turns about the first answer."""

    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: ModelContext,
        trace: vf.Trace,  # noqa: ARG002
        runtime: Runtime,  # noqa: ARG002
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],  # noqa: ARG002
        data: vf.TaskData,
    ) -> ProgramResult:
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0) as client:

            async def answer(messages: list[Any]) -> Any:
                completion = await client.chat.completions.create(
                    model=ctx.model, messages=messages
                )
                return {"role": "assistant", "content": completion.choices[0].message.content or ""}

            first = await answer([{"role": "user", "content": data.prompt}])
            history: list[Any] = [
                {"role": "user", "content": f"{data.prompt} So far: {first['content']}"}
            ]
            history.append(await answer(history))
            history.append({"role": "user", "content": "Sure?"})
            await answer(history)
        return ProgramResult(exit_code=0, stdout="", stderr="")
