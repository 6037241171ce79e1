"""Configuration of commands that run step environments on this machine: arguments and checks."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rolldeck import safetensors
from rolldeck.wire import InvalidMessage
from runs.config.rules import run_config
from runs.config.rules.run_config import PRESETS, InvalidRunConfig, RunConfig


def add_arguments(parser: argparse.ArgumentParser, *, parts: str) -> None:
    """Add the arguments that describe a run.

    Args:
        parser: Parser of the command.
        parts: Sections of the configuration that the command uses.
    """
    parser.add_argument(
        "--config",
        metavar="FILE|JSON",
        help=f"configuration of the run: {parts} (default: the defaults)",
    )
    parser.add_argument("--preset", choices=list(PRESETS), help="preset below the configuration")
    parser.add_argument("--environment", metavar="SPEC", help="another environment")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="cpu")


def read(args: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration that the arguments name, as JSON values, unchecked.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is not a JSON object.
    """
    text = args.config or "{}"
    content = text if text.lstrip().startswith("{") else Path(text).read_text()
    try:
        given = json.loads(content)
    except ValueError as error:
        raise ValueError(f"--config is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ValueError("--config is not a JSON object")  # noqa: TRY004 invalid value, not type
    base = run_config.to_builtins(PRESETS[args.preset][1]) if args.preset else {}
    return run_config.merged(base, given)


def read_weights(path: Path) -> dict[str, NDArray[Any]]:
    """Return the tensors of a safetensors file.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is not a safetensors file.
    """
    try:
        return safetensors.decode(path.read_bytes())
    except InvalidMessage as error:
        raise ValueError(f"--weights {path} is not a safetensors file: {error}") from error


def parse(raw: Mapping[str, Any], changes: Mapping[str, Any]) -> RunConfig:
    """Return a step run's configuration with changes; changes of None keep the value.

    Raises:
        InvalidRunConfig: If a field is invalid, or the configuration is that of a language run.
    """
    config = run_config.parse(run_config.merged(raw, _given(changes)))
    if config.language is not None:
        raise InvalidRunConfig("language", "a language run has no step environment")
    return config


def _given(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes without those that are None."""
    inside = {
        name: _given(value) if isinstance(value, Mapping) else value
        for name, value in changes.items()
    }
    return {name: value for name, value in inside.items() if value is not None}
