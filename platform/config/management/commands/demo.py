"""Command that demonstrates a policy learning on the whole system."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console

from config.demo.show import DEMOS, Demo
from config.embedded.children import StartFailed
from runs.config.rules.run_config import InvalidRunConfig


class Command(BaseCommand):
    """Start a server, launch a run, train it, and show the progress."""

    help = "Start a server, launch a run, train it, and show the progress."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the demo and the options."""
        parser.add_argument(
            "demo",
            nargs="?",
            default="cartpole",
            choices=[*DEMOS],
            help="cartpole (PPO), or grpo (lessons in text)",
        )
        parser.add_argument(
            "--exit", action="store_true", help="end at the target (exit code 0) or the limit (1)"
        )
        parser.add_argument(
            "--limit-seconds",
            type=float,
            help="time limit to reach the target; default 600 (cartpole) or 1200 (grpo)",
        )
        parser.add_argument(
            "--config",
            type=Path,
            metavar="FILE",
            help="run configuration (JSON) instead of the preset",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run until the target with ``--exit``, otherwise until Ctrl-C."""
        absent = [name for name in ("ray", "torch", "gymnasium") if find_spec(name) is None]
        if absent:
            raise CommandError(
                f"the demo needs {' and '.join(absent)}: pip install 'rolldeck[server]'"
            )
        config: Any = None
        if options["config"]:
            try:
                config = json.loads(options["config"].read_bytes())
            except (OSError, ValueError) as error:
                raise CommandError(f"--config: {error}") from error
            if not isinstance(config, dict):
                raise CommandError("--config: not a JSON object")
        demo = Demo(
            DEMOS[options["demo"]],
            Console(),
            exits=options["exit"],
            limit_seconds=options["limit_seconds"],
            config=config,
        )
        try:
            missing = demo.run()
        except (StartFailed, InvalidRunConfig) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            return
        if missing:
            raise CommandError(f"the demo missed its target: {missing}")
