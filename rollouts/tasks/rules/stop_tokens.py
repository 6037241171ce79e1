"""Stop tokens of lessons, checked against the vocabulary of the run's tokenizer."""

from typing import Final

from rollouts.tasks.rules.task_specs import InvalidTask, alphabet_of, make_task
from runs.config.rules.language_config import LanguageConfig

BYTES_VOCABULARY: Final = 257
"""One token per byte, and the end token."""


def unknown_stop_token(language: LanguageConfig, *, vocab_size: int) -> tuple[str, str] | None:
    """Return the path below `language` of the first id outside the vocabulary, and the reason."""
    for name, lesson in language.lessons.items():
        for place, token in enumerate(lesson.sampling.stop_token_ids):
            if token >= vocab_size:
                return (
                    f"lessons.{name}.sampling.stop_token_ids[{place}]",
                    f"token {token} is outside the vocabulary, 0 to {vocab_size - 1}",
                )
    return None


def built_in_vocabulary(language: LanguageConfig) -> int | None:
    """Return the number of tokens of a built-in tokenizer; None for a checkpoint's."""
    if language.model.tokenizer == "bytes":
        return BYTES_VOCABULARY
    if language.model.tokenizer == "checkpoint":
        return None
    try:
        tasks = [make_task(lesson.spec, lesson.kwargs) for lesson in language.lessons.values()]
    except InvalidTask:
        # Workers refuse this tokenizer for lessons other than built-in tasks.
        return None
    return len(alphabet_of(tasks)) + 1
