"""Stand-in for a chat server with a tool parser: it answers with messages that a test prepares.

It answers with the fields of vLLM's chat completions, in one piece or streamed, and with a token
per character. Like a chat template, it renders the JSON of tool calls in prompts again.
`tests/partners` sends the same requests to vLLM.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Json = dict[str, Any]


def text_answer(text: str, **fields: Any) -> Json:
    """Return an assistant's message with a text."""
    return {"role": "assistant", "content": text, "tool_calls": [], **fields}


def tool_answer(*calls: tuple[str, str], text: str = "") -> Json:
    """Return an assistant's message that calls tools, each a name and its arguments."""
    made = [
        {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": made}}
        for place, (name, made) in enumerate(calls)
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": made}


class ScriptedChat:
    """ASGI application, `app`, whose answers are `answers`, in order; the last one repeats."""

    def __init__(self, *answers: Json, model: str = "policy", finish: str = "") -> None:
        self.answers, self.model, self.finish = list(answers), model, finish
        self.requests: list[Json] = []
        self.answer_to: Callable[[list[Json]], Json] | None = None
        """Choice of the answer by the conversation, instead of `answers`."""
        self.change: Callable[[Json], Json] = lambda response: response
        """Change of each response or chunk, for responses that violate the API."""
        self.chunks_sent: int | None = None
        """Number of chunks after which a stream ends without [DONE]; None for a whole stream."""
        self.wait_seconds = 0.0
        """Time before the first byte of an answer."""
        self.app = Starlette(
            routes=[
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/models", self._models),
                Route("/detokenize", self._detokenize, methods=["POST"]),
            ]
        )

    async def _models(self, request: Request) -> Response:  # noqa: ARG002 required signature
        one = {"id": self.model, "object": "model", "created": 0, "owned_by": "vllm"}
        return JSONResponse({"object": "list", "data": [one]})

    async def _detokenize(self, request: Request) -> Response:
        tokens = (await request.json())["tokens"]
        return JSONResponse({"prompt": "".join(map(chr, tokens))})

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        self.requests.append(body)
        await asyncio.sleep(self.wait_seconds)
        if self.answer_to is not None:
            answer = self.answer_to(body["messages"])
        else:
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        finish = self.finish or ("tool_calls" if answer["tool_calls"] else "stop")
        prompt = rendered(body["messages"])
        assert body["return_token_ids"] is True
        assert body["logprobs"] is True
        if body.get("stream"):
            chunks = self._chunks(prompt, answer, finish, counts="stream_options" in body)
            return StreamingResponse(chunks, media_type="text/event-stream")
        choice = {"index": 0, "message": answer, "finish_reason": finish, "stop_reason": None}
        response = self._head("chat.completion") | {
            "choices": [choice | tokens_of(written(answer))],
            "prompt_token_ids": encoded(prompt),
            "usage": usage_of(prompt, written(answer)),
        }
        return JSONResponse(self.change(response))

    async def _chunks(
        self, prompt: str, answer: Json, finish: str, *, counts: bool
    ) -> AsyncIterator[str]:
        head = self._head("chat.completion.chunk")
        deltas: list[tuple[Json, str]] = [({"role": "assistant", "content": ""}, "")]
        if answer.get("reasoning"):
            deltas += [({"reasoning": piece}, piece) for piece in answer["reasoning"].split(" ")]
        deltas += [({"content": piece}, piece) for piece in answer["content"] or ""]
        for index, call in enumerate(answer["tool_calls"]):
            function = call["function"]
            named = {"name": function["name"], "arguments": ""}
            begin = {"index": index, "id": call["id"], "type": "function", "function": named}
            deltas.append(({"tool_calls": [begin]}, function["name"]))
            for piece in function["arguments"]:
                part = {"index": index, "function": {"arguments": piece}}
                deltas.append(({"tool_calls": [part]}, piece))
        for place, (delta, text) in enumerate(deltas[: self.chunks_sent]):
            choice = {"index": 0, "delta": delta, "finish_reason": None} | tokens_of(text)
            chunk = head | {"choices": [choice]}
            if not place:
                chunk["prompt_token_ids"] = encoded(prompt)
            yield f"data: {json.dumps(self.change(chunk))}\n\n"
        if self.chunks_sent is not None:
            return
        last = {"index": 0, "delta": {"content": ""}, "finish_reason": finish} | tokens_of("\n")
        yield f"data: {json.dumps(self.change(head | {'choices': [last]}))}\n\n"
        if counts:
            usage = usage_of(prompt, written(answer))
            yield f"data: {json.dumps(head | {'choices': [], 'usage': usage})}\n\n"
        yield "data: [DONE]\n\n"

    def _head(self, kind: str) -> Json:
        return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": self.model}


def usage_of(prompt: str, answer: str) -> Json:
    """Return the numbers of tokens."""
    counts = {"prompt_tokens": len(prompt), "completion_tokens": len(answer)}
    return counts | {"total_tokens": len(prompt) + len(answer)}


def rendered(messages: list[Json]) -> str:
    """Return a conversation as text, as a chat template does."""
    turns = [message | {"written": written(respelled(message))} for message in messages]
    return "".join(f"{turn['role']}: {turn['written']}" for turn in turns) + "assistant: "


def respelled(message: Json) -> Json:
    """Return a message whose tool calls have sorted keys and a space after separators."""
    calls = [
        call | {"function": call["function"] | {"arguments": _spelled(call)}}
        for call in message.get("tool_calls") or []
    ]
    return message | {"tool_calls": calls}


def _spelled(call: Json) -> str:
    arguments: str = call["function"]["arguments"]
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except ValueError:
        return arguments


def written(message: Json) -> str:
    """Return the text of a message, with its reasoning, its tool calls and its end."""
    calls = "".join(
        call["function"]["name"] + call["function"]["arguments"]
        for call in message.get("tool_calls") or []
    )
    reasoning = (message.get("reasoning") or "").replace(" ", "")
    return f"{reasoning}{message.get('content') or ''}{calls}\n"


def tokens_of(text: str) -> Json:
    """Return tokens and log probabilities, as in a choice of vLLM."""
    entries = [{"token": letter, "logprob": -0.5, "top_logprobs": []} for letter in text]
    return {"token_ids": encoded(text), "logprobs": {"content": entries}}


def encoded(text: str) -> list[int]:
    """Return a token per character."""
    return [ord(letter) for letter in text]
