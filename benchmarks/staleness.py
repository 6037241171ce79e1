"""Measure the cost of stale data and the benefit of correction: CartPole, in lockstep.

    python -m benchmarks.staleness

Runs the example trainer on data of an exact age in versions, and writes `results/staleness.json`,
and the figure and the table of `docs/explanation/off-policy.md`. The results are counted in env
steps, so they are the same on a busy machine.
"""

import argparse
import json
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.lockstep import LockstepFleet, train
from runs.config.rules import run_config
from runs.config.rules.run_config import PRESETS

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "benchmarks" / "results" / "staleness.json"
FIGURE: Final = ROOT / "docs" / "images" / "staleness.svg"
PAGE: Final = ROOT / "docs" / "explanation" / "off-policy.md"
BEGIN: Final = "<!-- staleness: python -m benchmarks.staleness writes from here -->"
END: Final = "<!-- staleness: to here -->"
LAST_EPISODES: Final = 20
MARK: Final = 450
"""Target mean return of the demo."""
SETTLED_STEPS: Final = 20
"""Number of final train steps over which the reached return is averaged."""


class Trial(NamedTuple):
    """One variant of the training."""

    title: str
    colour: str
    versions_behind: int
    advantages: Literal["gae", "vtrace"] = "vtrace"
    uses_stored_logprobs: bool = True
    """Whether stored log probabilities are used; otherwise the present policy's replace them."""


TRIALS: Final[dict[str, Trial]] = {
    "synchronous": Trial("synchronous", "#1f6feb", 0),
    "corrected": Trial("4 versions behind, stored logprobs and V-trace", "#2da44e", 4),
    "ratio_only": Trial("4 versions behind, stored logprobs and GAE", "#8250df", 4, "gae"),
    "uncorrected": Trial(
        "4 versions behind, uncorrected", "#cf222e", 4, "gae", uses_stored_logprobs=False
    ),
}
Curve = list[tuple[int, float]]
"""Env steps with the mean return of the last episodes, after every train step."""


def curve(name: str, seed: int, train_steps: int) -> Curve:
    """Train once and return the curve of the return."""
    import torch

    from examples.ppo_cartpole import Learner, PpoSettings, policy_for

    trial, config = TRIALS[name], PRESETS["cartpole"][1]
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    policy = policy_for(run_config.to_builtins(config))
    learner = Learner(policy, PpoSettings(advantages=trial.advantages), seed)
    fleet = LockstepFleet(config, seed=seed)
    points: Curve = []

    def learn(arrays: dict[str, NDArray[Any]], step: int) -> None:
        if not trial.uses_stored_logprobs:
            arrays["behavior_logprob"] = learner.logprobs(arrays)
        learner.learn(arrays, step)
        points.append((fleet.env_steps, round(fleet.mean_return(LAST_EPISODES), 1)))

    train(
        fleet,
        weights=lambda: {name: value.numpy() for name, value in policy.state_dict().items()},
        learn=learn,
        train_steps=train_steps,
        versions_behind=trial.versions_behind,
    )
    return points


def measure(*, seeds: int, train_steps: int) -> dict[str, Any]:
    """Run every trial with each seed; return curves by trial and seed."""
    pairs = list(product(TRIALS, range(seeds)))
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        curves = list(pool.map(_curve_of, [(*pair, train_steps) for pair in pairs]))
    return {
        "environment": PRESETS["cartpole"][1].environment.spec,
        "train_steps": train_steps,
        "curves": {
            name: [curve for (of, _), curve in zip(pairs, curves, strict=True) if of == name]
            for name in TRIALS
        },
    }


def _curve_of(arguments: tuple[str, int, int]) -> Curve:
    return curve(*arguments)


def reached(points: Curve) -> float:
    """Return the mean return over the last train steps."""
    return float(np.mean([value for _, value in points[-SETTLED_STEPS:]]))


def steps_to(points: Curve, mark: float) -> int | None:
    """Return the env steps until the mean return first reached `mark`."""
    return next((env_steps for env_steps, value in points if value >= mark), None)


def table(results: Mapping[str, Any]) -> str:
    """Return the figures as Markdown."""
    lines = [
        f"| data and trainer | env steps to {MARK}, each seed | return at the end, each seed |",
        "|---|---|---|",
    ]
    for name, curves in results["curves"].items():
        arrived = ", ".join(_arrival(steps_to(curve, MARK)) for curve in curves)
        ends = ", ".join(f"{reached(curve):.0f}" for curve in curves)
        lines.append(f"| {TRIALS[name].title} | {arrived} | {ends} |")
    return "\n".join(lines)


def _arrival(env_steps: int | None) -> str:
    return "never" if env_steps is None else f"{env_steps:,}"


def renewed(page: str, results: Mapping[str, Any]) -> str:
    """Return the page with the table of `results` between its markers."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{table(results)}\n{END}{rest.partition(END)[2]}"


def draw(results: Mapping[str, Any], path: Path = FIGURE) -> None:
    """Draw the mean and the range over the seeds of every trial."""
    import matplotlib as mpl

    mpl.use("svg")
    # Text stays text, and equal figures yield equal files.
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "rolldeck", "font.size": 10}
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.4), layout="constrained")
    for name, curves in results["curves"].items():
        trial = TRIALS[name]
        env_steps = [point[0] for point in curves[0]]
        values = np.array([[value for _, value in curve] for curve in curves])
        axes.plot(env_steps, values.mean(axis=0), color=trial.colour, label=trial.title)
        axes.fill_between(
            env_steps, values.min(axis=0), values.max(axis=0), color=trial.colour, alpha=0.15, lw=0
        )
    axes.set(
        xlabel="env steps",
        ylabel=f"mean return of the last {LAST_EPISODES} episodes",
        ylim=(0, 520),
    )
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Measure, then write results, figure and table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train-steps", type=int, default=80)
    parser.add_argument("--draw-only", action="store_true", help="use the saved results")
    arguments = parser.parse_args()
    if not arguments.draw_only:
        figures = measure(seeds=arguments.seeds, train_steps=arguments.train_steps)
        RESULTS.write_text(json.dumps(figures, separators=(",", ":")) + "\n", encoding="utf-8")
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    draw(results)
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
