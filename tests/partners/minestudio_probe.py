"""Use MineStudio's real classes with our adapter; prints facts as JSON.

Runs with the interpreter of MineStudio's environment. The engine, a Minecraft server in Java, is
not available: its file is an empty one, and two methods of the real client are replaced, those
that talk to it. Everything else is MineStudio's own code.
"""

import ast
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

SIZE = (48, 64)
LENGTH = 3
CLASSES = {
    "rollout_manager": "_RolloutManager",
    "rollout_worker": "RolloutWorker",
    "env_worker": "EnvWorker",
}
"""Class of each module."""


def engine_folder() -> str:
    """Return a folder in which MineStudio finds an engine's file."""
    folder = Path(tempfile.mkdtemp(prefix="minestudio"))
    file = folder / "engine" / "build" / "libs" / "mcprec-6.13.jar"
    file.parent.mkdir(parents=True)
    file.touch()
    return str(folder)


def parameters() -> dict[str, list[str]]:
    """Return the constructor's parameters of the classes of the rollout module, by class.

    They are read from the package's source: importing these modules imports its models, whose
    packages need a GPU's libraries.
    """
    import minestudio

    folder = Path(minestudio.__file__).parent / "online" / "rollout"
    found = {}
    for module, name in CLASSES.items():
        tree = ast.parse((folder / f"{module}.py").read_text(encoding="utf-8"))
        (owner,) = (one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == name)
        (init,) = (
            one for one in owner.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"
        )
        found[name.lstrip("_")] = [one.arg for one in init.args.args][1:]
    return found


def replace_engine(client: Any) -> None:
    """Replace the methods of MineStudio's client that talk to the engine."""
    steps = 0

    def frame() -> dict[str, Any]:
        return {"pov": np.full((360, 640, 3), steps, dtype=np.uint8)}

    def step(action: Any) -> tuple[dict[str, Any], float, bool, dict[str, Any]]:
        nonlocal steps
        assert "attack" in action, "the action was not converted to the game's"
        steps += 1
        return frame(), 1.5, steps >= LENGTH, {}

    def reset() -> dict[str, Any]:
        nonlocal steps
        steps = 0
        return frame()

    client.reset, client.step = reset, step


def episode() -> dict[str, Any]:
    """Run an episode of the real simulator through our adapter."""
    from rollouts.fleet.environments.kinds import make_minestudio

    given = {
        "obs_size": list(SIZE),
        "num_empty_frames": 0,
        "callbacks": {"biomes": ["plains"], "random_tp_range": 10, "commands": ["/time set 0"]},
    }
    environment: Any = make_minestudio("MinecraftSim", given)
    simulator = environment._simulator
    callbacks = [type(one).__name__ for one in simulator.callbacks]
    simulator.callbacks = []  # they send commands to the engine
    replace_engine(simulator.env)
    simulator.num_empty_frames = 1
    environment.reset(seed=7)
    replace_engine(simulator.env)
    obs, _ = environment.reset()
    space = environment.observation_space
    taken = [environment.step(environment.action_space.sample()) for _ in range(LENGTH - 1)]
    return {
        "callbacks": callbacks,
        "image": list(obs["image"].shape),
        "is_in_space": bool(space.contains(obs)),
        "space": list(space["image"].shape),
        "seed": simulator.seed,
        "rewards": [step[1] for step in taken],
        "ends": [step[2:4] for step in taken],
        "rendered": list(environment.render().shape),
    }


def unread_callbacks() -> str:
    """Return the error of a configuration that no callback reads."""
    from rollouts.fleet.environments.kinds import make_minestudio

    try:
        make_minestudio("MinecraftSim", {"callbacks": {"fast_reset": {"biomes": ["plains"]}}})
    except ValueError as error:
        return str(error)
    return ""


def main() -> None:
    """Print the facts in one line."""
    os.environ["MINESTUDIO_DIR"] = engine_folder()
    facts = {"parameters": parameters(), "episode": episode(), "unread": unread_callbacks()}
    sys.stdout.write("\n" + json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
