"""Pass the answers to a request from an engine's thread to an event loop."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from starlette.requests import ClientDisconnect, Request

from rollouts.fleet.engine.answers import Choice
from rollouts.fleet.engine.engine import Answer, Prompt
from rollouts.fleet.engine.openai_messages import Refused
from rollouts.fleet.engine.serving import EngineFailed, EngineThread, PendingGeneration
from rollouts.fleet.engine.tokenizers import TextStream, Tokenizer


class Generation:
    """The answers to the prompts of one request.

    Use it as ``with Generation(…) as generation: await generation.finished(request)``. Unfinished
    answers are cancelled at the end of the block, and their rows are free at the next step.
    """

    def __init__(
        self,
        engine: EngineThread,
        prompts: Sequence[Prompt],
        *,
        tokenizer: Tokenizer,
        includes_stop: bool,
        hears_each_token: bool,
    ) -> None:
        """Prepare the request.

        Args:
            engine: Engine thread that generates.
            prompts: Prompts to answer.
            tokenizer: Tokenizer of the model.
            includes_stop: Whether the text of an answer ends with its stop text.
            hears_each_token: Whether to wake for each token, or only when an answer ends.
        """
        streams = [
            TextStream(tokenizer, prompt.sampling.stop, includes_stop=includes_stop)
            for prompt in prompts
            for _ in range(prompt.answers)
        ]
        self.choices = [Choice(index=index, stream=stream) for index, stream in enumerate(streams)]
        self._engine, self._prompts = engine, prompts
        self._hears_each_token = hears_each_token
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Queue[tuple[Choice, Answer]] = asyncio.Queue()
        self._waiters: list[PendingGeneration] = []

    def __enter__(self) -> "Generation":
        """Submit the prompts.

        Raises:
            PromptTooLong: If a prompt does not fit the context.
            Refused: If the engine has ended.
        """
        first = 0
        try:
            for prompt in self._prompts:
                choices = self.choices[first : first + prompt.answers]
                self._waiters.append(self._submit(prompt, choices))
                first += prompt.answers
        except EngineFailed as error:
            self.__exit__()
            raise Refused(str(error), status=503) from error
        except ValueError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for pending in self._waiters:
            if pending.ended < pending.prompt.answers:
                self._engine.cancel(pending)

    async def finished(self, request: Request) -> list[Choice]:
        """Wait for all answers.

        Raises:
            ClientDisconnect: As soon as the client has disconnected.
            Refused: If the engine ends.
        """
        leaving = asyncio.create_task(_left(request))
        answering = asyncio.create_task(self._drain())
        try:
            await asyncio.wait({leaving, answering}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise ClientDisconnect
            await answering
        finally:
            leaving.cancel()
            answering.cancel()
        return self.choices

    async def pieces(self) -> AsyncIterator[tuple[Choice, str]]:
        """Yield each choice with new text, until all have ended.

        Raises:
            Refused: If the engine ends.
        """
        missing = len(self.choices)
        while missing:
            choice, answer = await self._news.get()
            if choice.finish:
                continue
            new = choice.add(answer)
            if choice.is_cancelled:
                raise Refused(self._engine.error or "the request was cancelled", status=503)
            missing -= bool(choice.finish)
            yield choice, new

    async def _drain(self) -> None:
        async for _ in self.pieces():
            pass

    def _submit(self, prompt: Prompt, choices: Sequence[Choice]) -> PendingGeneration:
        def on_answer(answer: Answer) -> None:
            if answer.finish or self._hears_each_token:
                with suppress(RuntimeError):  # the event loop has stopped
                    self._loop.call_soon_threadsafe(
                        self._news.put_nowait, (choices[answer.index], answer)
                    )

        return self._engine.submit(prompt, on_answer)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
