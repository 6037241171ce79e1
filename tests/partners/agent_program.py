"""Agent that solves a task with a tool, through an official client.

It runs in the environment `agents`, with its settings as JSON in the first argument, and prints
a JSON object: `text` of the last answer, `calls` of the tool, `output_tokens`, or `error`.
"""

import json
import sys
from typing import Any

import anthropic
import openai

SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "integer", "enum": [1, 2]}},
    "required": ["x"],
    "additionalProperties": False,
}
TASK = "add one to one"


class Agent:
    """Conversation with a model; `answer` returns its tool calls and text."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.context: list[Any] = [{"role": "user", "content": TASK}]
        self.text = ""
        self.output_tokens = 0

    @property
    def has_tools(self) -> bool:
        """Whether the model may call the tool."""
        return bool(self.settings["tools"])

    def answer(self, *, is_forced: bool) -> list[tuple[str, str, dict[str, Any]]]:
        """Add an answer to the conversation; return ids, names and arguments of its tool calls."""
        raise NotImplementedError

    def add_result(self, call_id: str, result: str) -> None:
        """Add the result of a tool call to the conversation."""
        raise NotImplementedError

    def common(self) -> dict[str, Any]:
        """Return the fields of all requests."""
        return {"model": self.settings["model"], "extra_body": self.settings["extra"]}


class Chat(Agent):
    """Conversation by OpenAI's chat completions."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.client = openai.OpenAI(
            base_url=f"{settings['base']}/v1", api_key=settings["key"], max_retries=0
        )

    def answer(self, *, is_forced: bool) -> list[tuple[str, str, dict[str, Any]]]:
        request = self.common() | {"messages": self.context, "max_tokens": 120}
        if self.has_tools:
            function = {"name": "add", "parameters": SCHEMA, "strict": True}
            request["tools"] = [{"type": "function", "function": function}]
            if is_forced:
                request["tool_choice"] = {"type": "function", "function": {"name": "add"}}
        message = self._streamed(request) if self.settings["stream"] else self._whole(request)
        self.text = message["content"] or ""
        self.context.append(message)
        return [
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls", [])
        ]

    def _whole(self, request: dict[str, Any]) -> dict[str, Any]:
        completion = self.client.chat.completions.create(**request)
        self.output_tokens += completion.usage.completion_tokens
        kept = {"role", "content", "tool_calls"}
        message: dict[str, Any] = completion.choices[0].message.model_dump(
            include=kept, exclude_none=True
        )
        return {"content": None} | message

    def _streamed(self, request: dict[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        options = {"include_usage": True}
        for chunk in self.client.chat.completions.create(
            **request, stream=True, stream_options=options
        ):
            if chunk.usage:
                self.output_tokens += chunk.usage.completion_tokens
            for choice in chunk.choices:
                message["content"] += choice.delta.content or ""
                for part in choice.delta.tool_calls or []:
                    calls = message.setdefault("tool_calls", [])
                    if part.index == len(calls):
                        function = {"name": part.function.name, "arguments": ""}
                        calls.append({"id": part.id, "type": "function", "function": function})
                    calls[part.index]["function"]["arguments"] += part.function.arguments or ""
        return message

    def add_result(self, call_id: str, result: str) -> None:
        self.context.append({"role": "tool", "tool_call_id": call_id, "content": result})


class Responses(Agent):
    """Conversation by OpenAI's Responses."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.client = openai.OpenAI(
            base_url=f"{settings['base']}/v1", api_key=settings["key"], max_retries=0
        )

    def answer(self, *, is_forced: bool) -> list[tuple[str, str, dict[str, Any]]]:
        request = self.common() | {"input": self.context, "max_output_tokens": 120}
        if self.has_tools:
            tool = {"type": "function", "name": "add", "parameters": SCHEMA, "strict": True}
            request["tools"] = [tool]
            if is_forced:
                request["tool_choice"] = {"type": "function", "name": "add"}
        if self.settings["stream"]:
            response: Any = None
            for event in self.client.responses.create(**request, stream=True):
                if event.type == "response.failed":
                    raise RuntimeError(event.response.error.message)
                response = getattr(event, "response", response)
        else:
            response = self.client.responses.create(**request)
        self.output_tokens += response.usage.output_tokens
        self.text = response.output_text
        self.context += response.output
        calls = [item for item in response.output if item.type == "function_call"]
        return [(call.call_id, call.name, json.loads(call.arguments)) for call in calls]

    def add_result(self, call_id: str, result: str) -> None:
        self.context.append({"type": "function_call_output", "call_id": call_id, "output": result})


class Messages(Agent):
    """Conversation by Anthropic's Messages."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.client = anthropic.Anthropic(
            base_url=settings["base"], api_key=settings["key"], max_retries=0
        )

    def answer(self, *, is_forced: bool) -> list[tuple[str, str, dict[str, Any]]]:
        request = self.common() | {"messages": self.context, "max_tokens": 120}
        if self.has_tools:
            request["tools"] = [{"name": "add", "input_schema": SCHEMA, "strict": True}]
            if is_forced:
                request["tool_choice"] = {"type": "tool", "name": "add"}
        if self.settings["stream"]:
            with self.client.messages.stream(**request) as stream:
                message: Any = stream.get_final_message()
        else:
            message = self.client.messages.create(**request)
        self.output_tokens += message.usage.output_tokens
        self.text = "".join(block.text for block in message.content if block.type == "text")
        self.context.append({"role": "assistant", "content": message.content})
        calls = [block for block in message.content if block.type == "tool_use"]
        return [(call.id, call.name, call.input) for call in calls]

    def add_result(self, call_id: str, result: str) -> None:
        block = {"type": "tool_result", "tool_use_id": call_id, "content": result}
        self.context.append({"role": "user", "content": [block]})


AGENTS = {"chat": Chat, "responses": Responses, "messages": Messages}


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a conversation of at most two answers."""
    agent: Agent = AGENTS[settings["api"]](settings)
    calls = agent.answer(is_forced=agent.has_tools)
    for call_id, _, arguments in calls:
        agent.add_result(call_id, str(arguments["x"] + 1))
    if calls:
        agent.answer(is_forced=False)
    return {
        "text": agent.text,
        "calls": [[name, arguments] for _, name, arguments in calls],
        "output_tokens": agent.output_tokens,
    }


if __name__ == "__main__":
    try:
        result = run(json.loads(sys.argv[1]))
    except (openai.APIError, anthropic.APIError, RuntimeError) as error:
        result = {"error": type(error).__name__, "message": str(error)}
    sys.stdout.write(f"{json.dumps(result)}\n")
