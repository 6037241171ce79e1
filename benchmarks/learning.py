"""Train the examples through the whole platform, and compare with published returns.

    make learning ARGS="--tasks acrobot,staleness --seeds 5"

Each training has a server, a fleet on Ray and an example trainer of its own. The command writes
`results/learning.json`, and the figure and the table of `docs/explanation/learning.md`; trainings
that the file has are not repeated. Returns are those of training episodes, with sampled actions.
The task `staleness` is :mod:`benchmarks.staleness`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks import staleness
from benchmarks.http_client import Refused
from benchmarks.machine import commit, describe_server, provenance, stated
from benchmarks.page_section import renewed
from benchmarks.rolldeck_server import TOKEN, RolldeckServer, running_rolldeck

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "benchmarks" / "results" / "learning.json"
FIGURE: Final = ROOT / "docs" / "images" / "learning.svg"
PAGE: Final = ROOT / "docs" / "explanation" / "learning.md"
BEGIN: Final = "<!-- learning: make learning writes from here -->"
END: Final = "<!-- learning: to here -->"
RETURN: Final = "rolldeck/reward/mean"
POINTS: Final = 400
POLL_SECONDS: Final = 2.0
LONGEST_SECONDS: Final = 3600.0
STALENESS: Final = "staleness"
LAST_STEPS: Final = 0.1
"""Share of the train steps whose mean return is the final one."""
SETTLED: Final = (120.0, 360.0)
"""Seconds of a run between which a task that must stay learnt is averaged."""


class Task(NamedTuple):
    """One task of the table.

    Attributes:
        environment: Its spec.
        example: Name of the trainer in `examples`.
        arguments: Arguments of the trainer.
        env_steps: Length of a training; 0 trains until `SETTLED` has passed.
        least: Return that the mean over the seeds must reach.
        source: Where `least` is from.
        preset: Preset of the run.
    """

    environment: str
    example: str
    arguments: tuple[str, ...]
    env_steps: int
    least: float
    source: str
    preset: str = "cartpole"


TASKS: Final[dict[str, Task]] = {
    "cartpole": Task(
        "gymnasium:CartPole-v1", "ppo_cartpole", (), 0, 470.0, "own target; CleanRL 490.0 ± 6.1"
    ),
    "acrobot": Task(
        "gymnasium:Acrobot-v1",
        "ppo_cartpole",
        ("--gamma", "0.99", "--entropy-coefficient", "0.01", "--annealing-env-steps", "500000"),
        500_000,
        -86.36 - 1.32,
        "CleanRL −86.4 ± 1.3",
    ),
    "lunar lander": Task(
        "gymnasium:LunarLander-v3",
        "ppo_cartpole",
        (
            *("--gamma", "0.99", "--entropy-coefficient", "0.01", "--reward-scale", "0.02"),
            *("--annealing-env-steps", "1500000"),
        ),
        1_500_000,
        200.0,
        "Gymnasium: solved at 200",
    ),
    "pendulum": Task(
        "gymnasium:Pendulum-v1",
        "ppo_continuous",
        (),
        240_000,
        -200.0,
        "own target",
        preset="pendulum",
    ),
    "inverted pendulum": Task(
        "gymnasium:InvertedPendulum-v4",
        "ppo_continuous",
        ("--gamma", "0.99"),
        1_000_000,
        888.83 - 34.66,
        "CleanRL 888.8 ± 34.7, 8 million steps",
        preset="pendulum",
    ),
}
"""The returns of CleanRL are those of its pages about PPO and RPO, docs.cleanrl.dev."""


def trained(rolldeck: RolldeckServer, task: Task, seed: int) -> dict[str, Any]:
    """Train once, and return the curve and the final return."""
    steps_of_a_batch = 1600 if task.preset == "pendulum" else 2048
    num_steps = task.env_steps // steps_of_a_batch or 100_000
    name = f"seed-{seed}"
    config = {"seed": seed, "num_steps": num_steps, "environment": {"spec": task.environment}}
    body = {"name": name, "preset": task.preset, "config": config, "start": True}
    _call(rolldeck, "POST", "/api/v1/runs", body)
    command = [sys.executable, "-m", f"examples.{task.example}", *task.arguments]
    environment = os.environ | {
        "ROLLDECK_URL": rolldeck.url,
        "ROLLDECK_TOKEN": TOKEN,
        "ROLLDECK_RUN": name,
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("", "platform", "client")),
    }
    with (rolldeck.var / "trainer.log").open("ab") as log:
        trainer = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    began = time.monotonic()
    try:
        while trainer.poll() is None and time.monotonic() - began < LONGEST_SECONDS:
            time.sleep(POLL_SECONDS)
            elapsed = [] if task.env_steps else _line(rolldeck, name, "elapsed")
            if elapsed and elapsed[-1][0] > SETTLED[1]:
                break
    finally:
        trainer.terminate()
        trainer.wait(30)
    if task.env_steps and trainer.returncode != 0:
        raise RuntimeError((rolldeck.var / "trainer.log").read_text(encoding="utf-8")[-2000:])
    curve, elapsed = _line(rolldeck, name, "amount"), _line(rolldeck, name, "elapsed")
    with suppress(Refused):  # it may be completed
        _call(rolldeck, "POST", f"/api/v1/runs/{name}/kill", {"reason": "the training is measured"})
    return {
        "curve": curve,
        "seconds": round(time.monotonic() - began),
        "final": round(final_return(curve, elapsed, is_timed=not task.env_steps), 2),
    }


def final_return(curve: list[list[float]], elapsed: list[list[float]], *, is_timed: bool) -> float:
    """Return the mean over the last tenth of a curve, or over the minutes that must be settled."""
    if is_timed:
        values = [value for at, value in elapsed if SETTLED[0] <= at <= SETTLED[1]]
    else:
        values = [value for _, value in curve[-max(1, round(LAST_STEPS * len(curve))) :]]
    return float(np.mean(values))


def _line(rolldeck: RolldeckServer, run: str, axis: str) -> list[list[float]]:
    """Return the mean return of train steps by env steps or seconds."""
    path = f"/api/v1/metrics/lines?runs={run}&names={RETURN}&x={axis}&points={POINTS}"
    lines = _call(rolldeck, "GET", path)["lines"]
    if not lines:
        return []
    [line] = lines
    pairs = zip(line["x"], line["last" if line["is_exact"] else "mean"], strict=True)
    return [[round(x, 1), round(y, 2)] for x, y in pairs if y is not None]


def _call(rolldeck: RolldeckServer, method: str, path: str, content: Any = None) -> Any:
    return rolldeck.call(method, path, content, is_admin=True)


def table(results: Mapping[str, Any]) -> str:
    """Return the returns as Markdown, with the machine and the commit of each task."""
    lines = [
        "| task | env steps | final return, mean ± deviation | each seed | at least | reached |",
        "|---|---|---|---|---|---|",
    ]
    for name, of_seeds in results["tasks"].items():
        task, finals = TASKS[name], [each["final"] for each in of_seeds.values()]
        is_met = min(finals) >= task.least if not task.env_steps else np.mean(finals) >= task.least
        length = f"{task.env_steps:,}" if task.env_steps else "minutes 2 to 6"
        each_seed = ", ".join(f"{value:.0f}" for value in finals)
        lines.append(
            f"| {name} | {length} | {np.mean(finals):.1f} ± {np.std(finals):.1f} | {each_seed} | "
            f"{task.least:.0f} ({task.source}) | {'yes' if is_met else 'no'} |"
        )
    return "\n".join([*lines, "", stated(results)])


def draw(results: Mapping[str, Any], path: Path = FIGURE) -> None:
    """Draw the curve of every seed of every task."""
    import matplotlib as mpl

    mpl.use("svg")
    # Text stays text, and equal figures yield equal files.
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "rolldeck", "font.size": 9}
    from matplotlib import pyplot as plt

    tasks = results["tasks"]
    columns = min(3, len(tasks))
    rows = -(-len(tasks) // columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(9, 2.6 * rows), layout="constrained", squeeze=False
    )
    for axes in grid.flat[len(tasks) :]:
        axes.remove()
    for axes, (name, of_seeds) in zip(grid.flat, tasks.items(), strict=False):
        for each in of_seeds.values():
            axes.plot(*zip(*each["curve"], strict=True), color="#1f6feb", alpha=0.6, lw=1)
        axes.axhline(TASKS[name].least, color="#6e7781", lw=1, ls="--")
        axes.set(title=name, xlabel="env steps", ylabel="mean return")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def read() -> dict[str, Any]:
    """Return the stored results."""
    if not RESULTS.is_file():
        return {"machine": "", "commit": "", "date": "", "tasks": {}}
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return results


def write(results: Mapping[str, Any]) -> None:
    """Store the results, and renew the figure and the page."""
    text = json.dumps(results, separators=(",", ":"))
    RESULTS.write_text(text + "\n", encoding="utf-8")
    draw(results)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(renewed(page, table(results), begin=BEGIN, end=END), encoding="utf-8")


def main() -> None:
    """Run the trainings that are not stored, and write results, figure and table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--tasks", default=",".join([*TASKS, STALENESS]), help="names, separated by commas"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--again", action="store_true", help="repeat stored trainings")
    arguments = parser.parse_args()
    commit()
    for name in arguments.tasks.split(","):
        if name == STALENESS:
            print(staleness.run(again=arguments.again))
            continue
        for seed in range(arguments.seeds):
            results = read()
            of_seeds = results["tasks"].setdefault(name, {})
            if str(seed) in of_seeds and not arguments.again:
                continue
            with running_rolldeck(settings={"RAY_ADDRESS": ""}) as rolldeck:
                found = trained(rolldeck, TASKS[name], seed)
                machine = describe_server(rolldeck.postgres_version(), rolldeck.var)
            of_seeds[str(seed)] = found
            print(f"{name}, seed {seed}: {found['final']} after {found['seconds']} s", flush=True)
            write(results | provenance(machine))
    if RESULTS.is_file():
        print(table(read()))


if __name__ == "__main__":
    main()
