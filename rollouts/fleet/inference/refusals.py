"""Reasons for which an inference server refuses a prompt.

A code or parameter in the response decides. Words of the message decide only where a server sends
neither: vLLM for unknown tokens, and SGLang's ``/generate`` for any error.

Sources: ``create_error_response`` and ``VLLMValidationError`` of vLLM, ``TokenizerManager`` of
SGLang, and OpenAI's error codes.
"""

from typing import Any, Final

import msgspec

from rollouts.fleet.engine.engine import PromptTooLong, TokenUnknown

SHOWN_CHARACTERS: Final = 500
PromptError = type[PromptTooLong] | type[TokenUnknown]
CODES: Final[dict[str, PromptError]] = {
    "context_length_exceeded": PromptTooLong,
    "token_unknown": TokenUnknown,
}
"""Error codes of OpenAI and of `rolldeck serve`."""
PARAMETERS: Final[dict[str, PromptError]] = {
    "input_tokens": PromptTooLong,
    # vLLM limits max_tokens to the room left in the context. Requests ask for at least one token,
    # so a refused value means that no room is left.
    "max_tokens": PromptTooLong,
}
"""Parameters that vLLM names."""
WORDS: Final[dict[str, PromptError]] = {
    "context": PromptTooLong,
    "maximum model length": PromptTooLong,
    "vocab": TokenUnknown,
}


def prompt_error(text: str) -> PromptTooLong | TokenUnknown | None:
    """Return the error that the body of a 400 response describes; None if it is not the prompt."""
    error = _error_in(text)
    code, parameter = error.get("code"), error.get("param")
    if isinstance(code, str):  # vLLM and SGLang send the HTTP status as a number
        kind = CODES.get(code)
    elif isinstance(parameter, str):
        kind = PARAMETERS.get(parameter)
    else:
        message = str(error.get("message", text))
        kind = next((kind for word, kind in WORDS.items() if word in message), None)
    return kind(text[:SHOWN_CHARACTERS]) if kind else None


def lacks(adapter: str, text: str) -> bool:
    """Return whether the body of a 400 or 404 response describes an adapter as not loaded."""
    return adapter in text and ("does not exist" in text or "not loaded" in text)


def _error_in(text: str) -> dict[str, Any]:
    """Return the error object of a response: below `error`, or the body itself."""
    try:
        body = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError):
        return {}
    error = body.get("error", body)
    return error if isinstance(error, dict) else {"message": error}
