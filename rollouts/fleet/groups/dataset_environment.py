"""Lessons of a data set with reward functions."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rollouts.fleet.datasets.dataset_task import DatasetTask, RowExample, ToolTask
from rollouts.fleet.datasets.rows import DatasetUnusable
from rollouts.fleet.groups.batches import Span
from rollouts.fleet.groups.environments import RolloutRequest, Sampled
from rollouts.fleet.groups.errors import Fault, LessonFailed, SamplingStopped
from rollouts.fleet.groups.policy_context import PolicyContext
from rollouts.fleet.groups.task_environment import Episode, TaskEnvironment
from rollouts.fleet.rewards.functions import Answered, RewardFailed, RewardUnusable
from rollouts.fleet.rewards.pool import RewardPool, Scores
from rollouts.fleet.tools.server import ToolServer, ToolsUnusable
from rollouts.tasks.rules.dataset_config import DatasetConfig, RewardConfig, dataset_name, parse
from rollouts.tasks.rules.task import InvalidTask, Reply

CORRECT_FROM: Final = 0.5
"""Reward from which an answer counts as correct, unless the lesson has `success_above`."""


class DatasetEnvironment:
    """Prompts of a data set; the reward of an answer is the weighted mean of its functions."""

    def __init__(self, spec: str, kwargs: Mapping[str, Any]) -> None:
        """Read the data set and build the reward functions.

        Args:
            spec: ``dataset:<path>``.
            kwargs: Fields of :class:`DatasetConfig`.

        Raises:
            LessonFailed: ``environment_kwargs``, ``environment_unknown``, ``environment_failed``,
                ``dataset_missing``, ``dataset_invalid`` or ``dependency_missing``.
        """
        try:
            self._config = parse(kwargs)
            self._build(dataset_name(spec))
        except InvalidTask as error:
            raise LessonFailed("environment_kwargs", str(error)) from error
        except (DatasetUnusable, RewardUnusable, ToolsUnusable) as error:
            raise LessonFailed(error.kind, f"{spec}: {error}") from error
        self._spec = spec
        self._environment = TaskEnvironment(self._task, self)
        self._notices = self._skipped_rows()

    def _build(self, name: str) -> None:
        config, tools = self._config, self._config.tools
        self._tools = ToolServer(tools.server) if tools else None
        try:
            if tools and self._tools:
                self._task: DatasetTask = ToolTask(name, config, tools, self._tools)
            else:
                self._task = DatasetTask(name, config)
            self._pool = RewardPool(config.rewards, processes=config.reward_processes)
        except BaseException:
            if self._tools:
                self._tools.close()
            raise

    @property
    def description(self) -> str:
        """Number of rows by use, for the check of a run."""
        train, evaluated = self._task.rows("train"), self._task.rows("eval")
        text = f"{train:,} rows for training, {evaluated:,} for evaluation"
        skipped = self._task.skipped_rows
        return f"{text}; {skipped:,} left out: {self._task.skipped[0]}" if skipped else text

    def sample(self, policy: PolicyContext, request: RolloutRequest) -> Sampled:
        """Return the groups of the requested problems; see :class:`GroupEnvironment`.

        Raises:
            LessonFailed: If a reward or tool failed, and failures stop the lesson.
        """
        sampled = self._environment.sample(policy, request)
        notices, self._notices = self._notices, []
        sampled.notices.extend(notices)
        return sampled

    def score(self, episodes: Sequence[Episode], policy: PolicyContext) -> dict[str, float]:
        """Compute all rewards of a batch; see :class:`Scorer`."""
        for one in episodes:
            if one.fault is not None and self._config.on_failure == "stop":
                raise LessonFailed(*one.fault, stops=True)
        open_episodes = [one for one in episodes if one.fault is None]
        began = time.time()
        results = self._pool.score(
            [_answered(one) for one in open_episodes], should_stop=policy.stop.is_set
        )
        computed = Span("reward", began, time.time())
        if results is None or policy.stop.is_set():
            raise SamplingStopped
        scored: list[Scores] = []
        for episode, result in zip(open_episodes, results, strict=True):
            episode.spans.append(computed)
            if isinstance(result, tuple):
                episode.fault = self._fault(episode, *result)
            else:
                reward = _mean(result, self._config)
                is_correct = reward >= CORRECT_FROM
                episode.reply = Reply("", is_over=True, reward=reward, is_correct=is_correct)
                scored.append(result)
        return _means(scored, self._config)

    def close(self) -> None:
        """End the reward processes and the tool server."""
        self._pool.close()
        if self._tools:
            self._tools.close()

    def _fault(self, episode: Episode, reward: RewardConfig, error: RewardFailed) -> Fault:
        """Return the fault of a failed reward.

        Raises:
            LessonFailed: If failures stop the lesson.
        """
        text = f"{episode.example.key}: reward {reward.kind} {error}"
        if self._config.on_failure == "stop":
            raise LessonFailed(error.kind, text, stops=True)
        return Fault(error.kind, text)

    def _skipped_rows(self) -> list[Fault]:
        count = self._task.skipped_rows
        if not count:
            return []
        text = f"{self._spec}: {count:,} rows are left out: {'; '.join(self._task.skipped)}"
        return [Fault("row_invalid", text)]


def _answered(episode: Episode) -> Answered:
    example = episode.example
    row = example.row if isinstance(example, RowExample) else {}
    return Answered(example.prompt, episode.turns[-1].text, example.answer, row)


def _mean(scores: Scores, config: DatasetConfig) -> float:
    """Return the mean of some rewards by their weights."""
    weights = [reward.weight for reward in config.rewards]
    return sum(w * score for w, score in zip(weights, scores, strict=True)) / sum(weights)


def _means(scored: Sequence[Scores], config: DatasetConfig) -> dict[str, float]:
    """Return the mean of each function over all answers, by its name."""
    if not scored:
        return {}
    kinds = [reward.name for reward in config.rewards]
    names = [
        f"reward {kind}" + (f" {place + 1}" if kinds.count(kind) > 1 else "")
        for place, kind in enumerate(kinds)
    ]
    columns = zip(names, zip(*scored, strict=True), strict=True)
    return {name: sum(column) / len(column) for name, column in columns}
