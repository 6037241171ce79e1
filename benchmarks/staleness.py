"""Measure the cost of stale data and the benefit of correction, in lockstep.

    make learning ARGS="--tasks staleness"

Trains the example trainers on data of an exact age in versions, on CartPole and on a lesson, and
writes `results/staleness.json`, and the figure and the table of `docs/explanation/learning.md`.
The results are counted in train steps, so they are the same on a busy machine.
"""

import json
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import lesson_lockstep
from benchmarks.lockstep import LockstepFleet, Weights, train
from benchmarks.machine import describe, provenance, stated
from benchmarks.page_section import renewed
from runs.config.rules import run_config
from runs.config.rules.language_config import LanguageConfig
from runs.config.rules.run_config import PRESETS

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "benchmarks" / "results" / "staleness.json"
FIGURE: Final = ROOT / "docs" / "images" / "staleness.svg"
PAGE: Final = ROOT / "docs" / "explanation" / "learning.md"
BEGIN: Final = "<!-- staleness: make learning writes from here -->"
END: Final = "<!-- staleness: to here -->"
SEEDS: Final = 3
AGES: Final = (1, 2, 4, 8)
LAST_EPISODES: Final = 20
SETTLED_STEPS: Final = 20
"""Number of final train steps over which the reached value is averaged."""
SYNCHRONOUS: Final = "synchronous"
Curve = list[float]
"""Mean return or score of the newest samples at each train step."""


class Trial(NamedTuple):
    """One variant of the training.

    Attributes:
        versions_behind: Age of the data in versions.
        advantages: Estimator of CartPole's advantages.
        uses_stored_logprobs: Whether the ratio compares with the stored log probabilities;
            otherwise with those of the present policy.
    """

    versions_behind: int
    advantages: Literal["gae", "vtrace"] = "vtrace"
    uses_stored_logprobs: bool = True


class Task(NamedTuple):
    """A training task; its curves are in `unit`, over `train_steps`."""

    unit: str
    train_steps: int
    trials: Mapping[str, Trial]


_BY_AGE: Final = {SYNCHRONOUS: Trial(0)} | {
    f"{age} version{'s' if age > 1 else ''} behind": Trial(age) for age in AGES
}
GRPO: Final = "lesson, GRPO"
IMITATED: Final = 0.3
"""Share of right answers before GRPO."""
TASKS: Final[Mapping[str, Task]] = {
    "CartPole, PPO": Task(
        f"mean return of the last {LAST_EPISODES} episodes",
        120,
        _BY_AGE
        | {
            "4 behind, GAE": Trial(4, "gae"),
            "4 behind, uncorrected": Trial(4, "gae", uses_stored_logprobs=False),
        },
    ),
    GRPO: Task("mean score of the sampled answers", 60, _BY_AGE),
}
LESSON: Final[dict[str, Any]] = {
    "language": {
        "lessons": {
            "shopping": {
                "spec": "task:shopping",
                "kwargs": {"goods": 2},
                "sampling": {"max_tokens": 24},
            }
        },
        "model": {
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "intermediate_size": 128,
            "max_position_embeddings": 64,
        },
        "group_size": 8,
        "prompts_per_batch": 16,
    },
    "buffer": {"batch_size": 128},
}


def curve(task: str, title: str, seed: int, weights: Weights | None = None) -> Curve:
    """Train once, a lesson's model from its first weights; return the curve."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    train_steps, trial = TASKS[task].train_steps, TASKS[task].trials[title]
    if weights is None:
        values = _cartpole(trial, seed, train_steps)
    else:
        values = _lesson(trial, seed, train_steps, weights)
    return [round(value, 3) for value in values]


def _cartpole(trial: Trial, seed: int, train_steps: int) -> Curve:
    from examples.ppo_cartpole import Learner, PpoSettings, policy_for

    config = PRESETS["cartpole"][1]
    policy = policy_for(run_config.to_builtins(config))
    learner = Learner(policy, PpoSettings(advantages=trial.advantages), seed)
    fleet = LockstepFleet(config, seed=seed)
    values: Curve = []

    def learn(arrays: dict[str, NDArray[Any]], step: int) -> None:
        if not trial.uses_stored_logprobs:
            arrays["behavior_logprob"] = learner.logprobs(arrays)
        learner.learn(arrays, step)
        values.append(max(0.0, fleet.mean_return(LAST_EPISODES)))

    train(
        fleet,
        weights=lambda: {name: value.numpy() for name, value in policy.state_dict().items()},
        learn=learn,
        train_steps=train_steps,
        versions_behind=trial.versions_behind,
    )
    return values


def imitated(seed: int) -> Weights:
    """Return the weights of a new model that has imitated a few answers of the lesson."""
    import torch

    from rollouts.fleet.datasets.dataset_task import lesson_task
    from rollouts.fleet.engine.building import build, clone_behavior
    from rollouts.fleet.engine.checkpoints import named_tensors

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    language = _language()
    built = build(language)
    tasks = {name: lesson_task(lesson) for name, lesson in language.lessons.items()}
    clone_behavior(built, tasks, seed=seed, until_success=IMITATED)
    return {name: tensor.detach().numpy() for name, tensor in named_tensors(built.model)}


def _language() -> LanguageConfig:
    language = run_config.parse(LESSON).language
    assert language is not None  # noqa: S101 LESSON has it
    return language


def _lesson(trial: Trial, seed: int, train_steps: int, weights: Weights) -> Curve:
    import torch

    from examples.grpo import Learner, Settings
    from rollouts.fleet.engine.building import build
    from rollouts.fleet.engine.checkpoints import named_tensors, restore

    built = build(_language())
    restore(built.model, {name: torch.from_numpy(array) for name, array in weights.items()})
    learner = Learner(built.model, Settings(), seed=seed)
    [name] = LESSON["language"]["lessons"]
    with lesson_lockstep.LockstepLesson(run_config.parse(LESSON), name, seed=seed) as lesson:
        lesson_lockstep.train(
            lesson,
            weights=lambda: dict(named_tensors(built.model)),
            learn=lambda batch: learner.learn(batch.padded()),
            train_steps=train_steps,
            versions_behind=trial.versions_behind,
        )
        return lesson.rewards[:train_steps]


def measure(task: str) -> dict[str, list[Curve]]:
    """Train every trial of a task with each seed; return the curves by title."""
    seeds = range(SEEDS)
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        first = list(pool.map(imitated, seeds)) if task == GRPO else [None] * SEEDS
        futures = {
            title: [pool.submit(curve, task, title, seed, first[seed]) for seed in seeds]
            for title in TASKS[task].trials
        }
        return {title: [each.result() for each in own] for title, own in futures.items()}


def reached(points: Curve) -> float:
    """Return the mean over the last train steps."""
    return float(np.mean(points[-SETTLED_STEPS:]))


def read() -> dict[str, Any]:
    """Return the stored results."""
    if not RESULTS.is_file():
        return {"tasks": {}}
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return results


def table(results: Mapping[str, Any]) -> str:
    """Return the figures as Markdown, with machine and commit; empty without results."""
    if not results["tasks"]:
        return ""
    lines = [
        "| task | data | end, each seed | mean of all train steps, each seed | as synchronous |",
        "|---|---|---|---|---|",
    ]
    for task, curves in results["tasks"].items():
        for title, seeds in curves.items():
            columns = [[measured(one) for one in seeds] for measured in (reached, np.mean)]
            least = [
                min(measured(one) for one in curves[SYNCHRONOUS]) for measured in (reached, np.mean)
            ]
            overlap = [max(values) >= low for values, low in zip(columns, least, strict=True)]
            shown = [", ".join(f"{value:.3g}" for value in values) for values in columns]
            lines.append(f"| {task} | {title} | {' | '.join(shown)} | {_in_words(*overlap)} |")
    return "\n".join([*lines, "", stated(results)])


def _in_words(has_end: bool, has_mean: bool) -> str:
    """Return whether the range of the seeds reaches that of the synchronous ones."""
    if has_end:
        return "yes" if has_mean else "at the end, learns more slowly"
    return "no"


def draw(results: Mapping[str, Any], path: Path = FIGURE) -> None:
    """Draw the mean and the range over the seeds of every trial."""
    import matplotlib as mpl

    mpl.use("svg")
    # Text stays text, and equal figures yield equal files.
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "rolldeck", "font.size": 10}
    from matplotlib import pyplot as plt

    colours = ("#0a3069", "#1f6feb", "#2da44e", "#bf8700", "#bc4c00", "#8250df", "#cf222e")
    figure, panels = plt.subplots(1, len(results["tasks"]), figsize=(9, 4.2), layout="constrained")
    for axes, (task, curves) in zip(np.atleast_1d(panels), results["tasks"].items(), strict=True):
        for colour, (title, seeds) in zip(colours, curves.items(), strict=False):
            values, steps = np.array(seeds), np.arange(1, len(seeds[0]) + 1)
            axes.plot(steps, values.mean(axis=0), color=colour, label=title, lw=1.2)
            axes.fill_between(
                steps, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.1, lw=0
            )
        axes.set(title=task, xlabel="train steps", ylabel=TASKS[task].unit)
        axes.spines[["top", "right"]].set_visible(False)
    widest = max(np.atleast_1d(panels), key=lambda axes: len(axes.get_lines()))
    figure.legend(
        *widest.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False
    )
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def run(*, again: bool) -> str:
    """Train the tasks that are not stored; write results, figure and table; return the table."""
    for task in TASKS:
        results = read()
        if task in results["tasks"] and not again:
            continue
        tasks = results["tasks"] | {task: measure(task)}
        results = provenance(describe()) | {"tasks": tasks}
        RESULTS.write_text(json.dumps(results, separators=(",", ":")) + "\n", encoding="utf-8")
        draw(results)
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(renewed(page, table(results), begin=BEGIN, end=END), encoding="utf-8")
    return table(read())
