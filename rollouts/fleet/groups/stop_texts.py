"""Ends of answers: stop strings and stop tokens of a lesson.

The tokens of an answer include those of its stop string or its stop token: the policy has sampled
them, and a trainer needs them to learn when to stop. The text that an environment scores excludes
them, unless the lesson sets `include_stop_str_in_output`, as in vLLM.
"""

from dataclasses import replace

from rollouts.fleet.engine.engine import Answer
from rollouts.fleet.engine.tokenizers import TextStream, Tokenizer, TokenizerUnusable
from rollouts.tasks.rules.task import unknown_stop_token
from runs.config.rules.language_config import LanguageConfig, SamplingConfig


def check_stop_tokens(language: LanguageConfig, *, vocab_size: int) -> None:
    """Check that the stop tokens of all lessons are in the vocabulary.

    Raises:
        TokenizerUnusable: With the field of the first unknown id.
    """
    wrong = unknown_stop_token(language, vocab_size=vocab_size)
    if wrong is not None:
        raise TokenizerUnusable(f"language.{wrong[0]}: {wrong[1]}")


def ended(answer: Answer, sampling: SamplingConfig, tokenizer: Tokenizer) -> Answer:
    """Return an answer without tokens after the one that completes its first stop string.

    A server that samples several tokens per step may return such tokens.
    """
    if not sampling.stop:
        return answer
    stream = TextStream(tokenizer, sampling.stop)
    for count in range(1, len(answer.tokens) + 1):
        stream.add(answer.tokens[:count])
        if stream.is_stopped:
            return replace(
                answer,
                tokens=answer.tokens[:count],
                logprobs=answer.logprobs[:count],
                versions=answer.versions[:count],
                finish="stop",
            )
    return answer


def scored_text(answer: Answer, sampling: SamplingConfig, tokenizer: Tokenizer) -> str:
    """Return the text of an answer as its environment scores it."""
    tokens, includes_stop = answer.tokens, sampling.include_stop_str_in_output
    if tokens and tokens[-1] in sampling.stop_token_ids and not includes_stop:
        tokens = tokens[:-1]
    stream = TextStream(tokenizer, sampling.stop, includes_stop=includes_stop)
    stream.add(tokens, is_last=True)
    return stream.text
