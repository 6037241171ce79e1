"""Environments in which a policy answers problems of a task or a data set, over several turns."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from rollouts.fleet.datasets.dataset_task import DatasetTask, RowExample, ToolTask
from rollouts.fleet.datasets.rows import DatasetUnusable
from rollouts.fleet.engine.engine import Answer
from rollouts.fleet.engine.tokenizers import TokenizerUnusable, check_tokens
from rollouts.fleet.groups.batches import CORRECT_FROM, Rollout, RolloutGroup, Span, TokenColumns
from rollouts.fleet.groups.environments import RolloutRequest, Sampled
from rollouts.fleet.groups.errors import Fault, LessonFailed, SamplingStopped
from rollouts.fleet.groups.policy_context import PolicyContext
from rollouts.fleet.process.settings import derive_seed
from rollouts.fleet.rewards.functions import Answered, RewardUnusable
from rollouts.fleet.rewards.pool import RewardPool, Scores
from rollouts.fleet.tools.server import ToolServer, ToolsUnusable
from rollouts.tasks.rules.dataset_config import dataset_name, parse
from rollouts.tasks.rules.task import (
    EpisodeFailed,
    Example,
    InvalidTask,
    Reply,
    Task,
    Turn,
    examples,
)

OPEN = Reply("", is_over=False, reward=0.0)


@dataclass(slots=True, kw_only=True)
class Episode(TokenColumns):
    """State of one conversation about one problem."""

    example: Example
    generation: int
    turns: list[Turn] = field(default_factory=list)
    transcript: str = ""
    messages: list[Mapping[str, str]] = field(default_factory=list)
    """Conversation for a chat template; empty for plain text."""
    rendered: str = ""
    """Text of the conversation before the policy's last turn, with a chat template."""
    reply: Reply = OPEN
    is_truncated: bool = False
    fault: Fault | None = None
    """Why the conversation failed or has no score."""
    spans: list[Span] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.reply.is_over or self.is_truncated or self.fault is not None

    def finished(self) -> Rollout:
        return Rollout(
            tokens=self.tokens,
            is_own=self.is_own,
            logprobs=self.logprobs,
            versions=self.versions,
            reward=self.reply.reward,
            is_correct=self.reply.is_correct,
            is_truncated=self.is_truncated or self.turns[-1].is_truncated,
            prompt=self.example.prompt,
            response=self.transcript,
            spans=self.spans,
        )


class TaskEnvironment:
    """Adapter of a :class:`rollouts.tasks.rules.task.Task`.

    Prompts are plain text, or messages that the tokenizer's chat template renders.
    """

    def __init__(self, task: Task, scorer: "DatasetEnvironment | None" = None) -> None:
        """Store the task; `scorer` replaces the rewards of its replies."""
        self._task, self._scorer = task, scorer

    @property
    def pass_size(self) -> int:
        """Number of training problems, of which each is once in a pass; 0 if they have no end."""
        rows = getattr(self._task, "rows", None)
        return int(rows("train")) if rows is not None else 0

    def sample(self, policy: PolicyContext, request: RolloutRequest) -> Sampled:
        """Return the groups of the requested problems; see :class:`GroupEnvironment`.

        All conversations run in parallel, and the first turns of a group share the prefill of their
        prompt. An answer depends only on `request.seed`, its problem and its index in the group.
        """
        problems = examples(
            self._task, request.numbers, mode=request.mode, seed=request.problem_seed
        )
        read, faults = _read(zip(request.numbers, problems, strict=True), policy)
        episodes = self._begin(read, policy, request)
        turn = 1
        while going := [one for one in episodes if not one.is_over]:
            seeds = [_seed(request.seed, one.example, one.generation, turn) for one in going]
            prompts = [
                policy.prompt(one.tokens, answers=1, seed=seed)
                for one, seed in zip(going, seeds, strict=True)
            ]
            began = time.time()
            answered = policy.generate(prompts)
            generated = Span("generate", began, time.time())
            for episode in going:
                episode.spans.append(generated)
            answers = [(one, answer) for one, [answer] in zip(going, answered, strict=True)]
            self._score_all(answers, policy)
            turn += 1
        turns = sum(len(one.turns) for one in episodes) / max(1, len(episodes))
        metrics = {"turns_mean": turns}
        if self._scorer is not None and episodes:
            metrics |= self._scorer.score(episodes, policy)
        groups = []
        for number, example, _ in read:
            mine = [one for one in episodes if one.example is example]
            groups.append(
                RolloutGroup(
                    example=example.key,
                    rollouts=[one.finished() for one in mine if one.fault is None],
                    failed=[one.fault for one in mine if one.fault is not None],
                    number=number,
                )
            )
        return Sampled(groups=groups, metrics=metrics, faults=faults)

    def _begin(
        self,
        read: list[tuple[int, Example, list[int]]],
        policy: PolicyContext,
        request: RolloutRequest,
    ) -> list[Episode]:
        """Sample the first turns of each prompt."""
        prompts = [
            policy.prompt(tokens, answers=request.generations, seed=_seed(request.seed, example))
            for _, example, tokens in read
        ]
        began = time.time()
        answered = policy.generate(prompts)
        generated = Span("generate", began, time.time())
        episodes = []
        turns = []
        for (_, example, tokens), answers in zip(read, answered, strict=True):
            text = policy.tokenizer.render(example.messages) if example.messages else ""
            for answer in answers:
                episode = Episode(
                    example=example,
                    generation=answer.index,
                    messages=list(example.messages),
                    rendered=text,
                )
                episode.add_given(tokens)
                episode.spans.append(generated)
                turns.append((episode, answer))
                episodes.append(episode)
        self._score_all(turns, policy)
        return episodes

    def _score_all(self, turns: Sequence[tuple[Episode, Answer]], policy: PolicyContext) -> None:
        """Append a turn to each conversation, in parallel if the task waits for others."""
        at_a_time = getattr(self._task, "replies_at_a_time", 1)
        if at_a_time == 1:
            for episode, answer in turns:
                self._score(episode, answer, policy)
            return
        with ThreadPoolExecutor(at_a_time) as pool:
            for scored in [pool.submit(self._score, *turn, policy) for turn in turns]:
                scored.result()

    def _score(self, episode: Episode, answer: Answer, policy: PolicyContext) -> None:
        """Append a turn and the task's reply, and check whether another turn fits."""
        if policy.stop.is_set():
            raise SamplingStopped
        text = policy.text_of(answer)
        episode.add_own(answer)
        episode.transcript += text
        episode.turns.append(Turn(text, is_truncated=answer.finish == "length"))
        began = time.time()
        try:
            episode.reply = self._task.reply(episode.example, episode.turns)
            observation = _observation(episode, policy)
        except EpisodeFailed as error:
            episode.fault = Fault(error.kind, f"{episode.example.key}: {error}")
            return
        # The final reply is the reward; any other reply is an env step.
        word = "reward" if episode.reply.is_over else "env step"
        episode.spans.append(Span(word, began, time.time()))
        if episode.reply.is_over:
            return
        # Nothing may exceed the context, which also limits the trainer.
        is_full = len(episode.tokens) + len(observation) >= policy.context_tokens
        episode.is_truncated = is_full or len(episode.turns) >= self._task.most_turns
        if not episode.is_truncated:
            episode.add_given(observation)
            episode.transcript += episode.reply.text


def _observation(episode: Episode, policy: PolicyContext) -> list[int]:
    """Return the tokens of the task's reply, with those of the chat template around it.

    Raises:
        EpisodeFailed: If the template changes the conversation so far.
    """
    text = episode.reply.text
    if episode.reply.is_over or not episode.messages:
        return policy.tokenizer.encode(text)
    said = episode.turns[-1].text
    episode.messages += [
        {"role": "assistant", "content": said},
        {"role": "user", "content": text},
    ]
    rendered = policy.tokenizer.render(episode.messages)
    before = episode.rendered + said
    if not rendered.startswith(before):
        raise EpisodeFailed("rollout_failed", "the chat template changes earlier turns")
    episode.rendered = rendered
    tokens = policy.tokenizer.encode(rendered.removeprefix(before))
    if tokens and episode.tokens[-1] == tokens[0] == policy.tokenizer.end:
        # Both the template and the policy have ended the turn.
        return tokens[1:]
    return tokens


def _read(
    problems: Iterable[tuple[int, Example]], policy: PolicyContext
) -> tuple[list[tuple[int, Example, list[int]]], list[Fault]]:
    """Return numbered problems with their tokens, and a fault for each unusable problem."""
    read, faults, tokenizer = [], [], policy.tokenizer
    for number, example in problems:
        try:
            if example.tokens:
                # The prompt is stored as tokens.
                check_tokens(example.tokens, tokenizer)
                text, tokens = tokenizer.decode_with_special(example.tokens), [*example.tokens]
                example = replace(example, prompt=text)
            else:
                is_chat = bool(example.messages)
                text = tokenizer.render(example.messages) if is_chat else example.prompt
                tokens = tokenizer.encode(text)
        except TokenizerUnusable as misfit:
            faults.append(Fault("tokenizer_unusable", f"{example.key}: {misfit}", number))
            continue
        if 0 < len(tokens) < policy.context_tokens:
            read.append((number, example, tokens))
            continue
        text = f"{example.key}: {len(tokens)} tokens; 1 to {policy.context_tokens - 1} fit"
        faults.append(Fault("prompt_too_long", text, number))
    return read, faults


def _seed(seed: int, example: Example, *parts: int) -> int:
    return derive_seed(seed, example.key, *parts)


class DatasetEnvironment:
    """Prompts of a data set; the reward of an answer is the weighted mean of its functions.

    Functions that return None do not count; an answer that none scores has no score.
    """

    def __init__(self, spec: str, kwargs: Mapping[str, Any]) -> None:
        """Read the data set and build the reward functions.

        `spec` is ``dataset:<path>``, `kwargs` are the fields of :class:`DatasetConfig`.

        Raises:
            LessonFailed: ``environment_kwargs``, ``environment_unknown``, ``environment_failed``,
                ``dataset_missing``, ``dataset_invalid`` or ``dependency_missing``.
        """
        try:
            config, name = parse(kwargs), dataset_name(spec)
            tools = config.tools
            self._config = config
            self._tools = ToolServer(tools.server) if tools else None
            with ExitStack() as undo:
                if tools and self._tools:
                    undo.callback(self._tools.close)
                    self._task: DatasetTask = ToolTask(name, config, tools, self._tools)
                else:
                    self._task = DatasetTask(name, config)
                self._pool = RewardPool(config.rewards, processes=config.reward_processes)
                undo.pop_all()
        except InvalidTask as error:
            raise LessonFailed("environment_kwargs", str(error)) from error
        except (DatasetUnusable, RewardUnusable, ToolsUnusable) as error:
            raise LessonFailed(error.kind, f"{spec}: {error}") from error
        self._environment = TaskEnvironment(self._task, self)
        self._notices: list[Fault] = []
        if count := self._task.skipped_rows:
            text = f"{spec}: {count:,} rows are left out: {'; '.join(self._task.skipped)}"
            self._notices.append(Fault("row_invalid", text))

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
        """Set `reply` or `fault` of each conversation after its last turn; return metrics."""
        for one in episodes:
            if one.fault is not None and self._config.on_failure == "stop":
                raise LessonFailed(one.fault.kind, one.fault.message, stops=True)
        open_episodes = [one for one in episodes if one.fault is None]
        answered = []
        for one in open_episodes:
            example, answer = one.example, one.turns[-1].text
            row = example.row if isinstance(example, RowExample) else {}
            answered.append(Answered(example.prompt, answer, example.answer, row))
        began = time.time()
        results = self._pool.score(answered, should_stop=policy.stop.is_set)
        computed = Span("reward", began, time.time())
        if results is None or policy.stop.is_set():
            raise SamplingStopped
        weights = [reward.weight for reward in self._config.rewards]
        scored: list[Scores] = []
        for episode, result in zip(open_episodes, results, strict=True):
            episode.spans.append(computed)
            if isinstance(result, tuple):
                failed, error = result
                text = f"{episode.example.key}: reward {failed.kind} {error}"
                if self._config.on_failure == "stop":
                    raise LessonFailed(error.kind, text, stops=True)
                episode.fault = Fault(error.kind, text)
            else:
                given = [
                    (weight, one)
                    for weight, one in zip(weights, result, strict=True)
                    if one is not None
                ]
                total = math.fsum(weight for weight, _ in given)
                if not total:
                    text = f"{episode.example.key}: no reward function scored the answer"
                    episode.fault = Fault("rollout_unscored", text)
                    continue
                reward = math.fsum(weight * one for weight, one in given) / total
                is_correct = reward >= CORRECT_FROM
                episode.reply = Reply("", is_over=True, reward=reward, is_correct=is_correct)
                scored.append(result)
        kinds = [reward.name for reward in self._config.rewards]
        means = {}
        for place, scores in enumerate(zip(*scored, strict=True)):
            number = f" {place + 1}" if kinds.count(kinds[place]) > 1 else ""
            if known := [one for one in scores if one is not None]:
                means[f"reward {kinds[place]}{number}"] = sum(known) / len(known)
        return means

    def close(self) -> None:
        self._pool.close()
        if self._tools:
            self._tools.close()
