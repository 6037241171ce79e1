"""API schemas of prompts that several runs share."""

from msgspec import Struct

from web.rules.pages import Page


class PromptInRun(Struct, frozen=True, kw_only=True):
    """Scores of a run on a prompt, over its newest 16 groups."""

    run: str
    groups: int
    newest: int
    """Id of the newest group."""
    policy_step: int | None
    """Policy version of the newest group."""
    score_mean: float | None
    score_min: float | None
    score_max: float | None


class PromptRow(Struct, frozen=True, kw_only=True):
    """A prompt; `runs` omits runs without groups for it."""

    prompt: str
    """Digest of the prompt, usable in the group filter."""
    excerpt: str
    lesson: str
    example: str
    runs: list[PromptInRun]


class PromptList(Page[PromptRow], frozen=True, kw_only=True):
    """Prompts among the newest 1,000 groups of each run; most widely shared first."""
