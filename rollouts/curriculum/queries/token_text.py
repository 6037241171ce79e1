"""Decoding of the tokens of language runs."""

from rollouts.control.rules import Pieces, byte_pieces, character_pieces
from rollouts.curriculum.queries.curricula import NoCurriculum, curriculum_of
from rollouts.lessons.rules.lessons import InvalidCurriculum
from rollouts.tasks.rules.task_specs import InvalidTask, alphabet_of, make_task
from runs.config.rules.language_config import LanguageConfig
from runs.lifecycle.models import Run, RunKind


def token_pieces(run: Run) -> Pieces | None:
    """Return a function that maps a run's tokens to text; None if only workers can decode them."""
    if run.kind != RunKind.LANGUAGE:
        return None
    try:
        language = curriculum_of(run.pk).language
    except (NoCurriculum, InvalidCurriculum):
        return None
    if language.model.tokenizer == "bytes":
        return byte_pieces
    return _characters(language) if language.model.tokenizer == "alphabet" else None


def _characters(language: LanguageConfig) -> Pieces | None:
    try:
        tasks = [make_task(lesson.spec, lesson.kwargs) for lesson in language.lessons.values()]
    except InvalidTask:
        return None
    return character_pieces(alphabet_of(tasks))
