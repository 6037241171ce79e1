"""Shape what is answered about prompts that several runs share."""

from msgspec import Struct


class PromptInRun(Struct, frozen=True, kw_only=True):
    """How a run did on a prompt, by its newest 16 groups of it."""

    run: str
    groups: int
    newest: int
    """Id of the newest of them."""
    policy_step: int | None
    """Of that one."""
    score_mean: float | None
    score_min: float | None
    score_max: float | None


class PromptRow(Struct, frozen=True, kw_only=True):
    """A prompt; runs that were never asked it are not in `runs`."""

    prompt: str
    """Its digest, for the filter of groups."""
    excerpt: str
    lesson: str
    example: str
    runs: list[PromptInRun]


class PromptList(Struct, frozen=True, kw_only=True):
    """Prompts among the newest 1,000 groups of each run, those that most were asked first."""

    results: list[PromptRow]
