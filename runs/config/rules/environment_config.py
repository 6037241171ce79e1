"""Environment settings of a run."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from runs.config.rules.config_field import described as _field


class ExtensionConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A registered wrapper or callback and its arguments."""

    kind: Annotated[str, _field("Kind", "A registered name.", min_length=1, max_length=200)]
    kwargs: Annotated[dict[str, Any], _field("Arguments", "Keyword arguments.", max_length=50)] = {}


class EnvironmentConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The environment that the fleet steps."""

    spec: Annotated[
        str,
        _field(
            "Environment",
            "A registered environment, as gymnasium:<id> or rolldeck:<id>.",
            essential=True,
            pattern=r"^[a-z_]+:[\w./:-]{1,120}$",
        ),
    ] = "gymnasium:CartPole-v1"
    kwargs: Annotated[
        dict[str, Any],
        _field("Arguments", "Keyword arguments for the environment.", essential=True),
    ] = {}
    wrappers: Annotated[
        list[ExtensionConfig],
        _field(
            "Wrappers",
            "Registered wrappers of the environment, innermost first.",
            max_length=16,
        ),
    ] = []
    callbacks: Annotated[
        list[ExtensionConfig],
        _field(
            "Callbacks",
            "Registered callbacks that may change observations, actions, rewards and info.",
            max_length=16,
        ),
    ] = []
    step_callbacks: Annotated[
        list[ExtensionConfig],
        _field(
            "Step callbacks",
            "Registered callbacks that take every env step in the workers.",
            max_length=16,
        ),
    ] = []
    restart_interval_seconds: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        _field(
            "Restart interval",
            "Restart an environment's process between episodes after this long; empty for never.",
            unit="s",
        ),
    ] = None
    hung_after_seconds: Annotated[
        float,
        _field(
            "Hung after",
            "Replace an environment's process that does not respond for this long.",
            unit="s",
            gt=0,
            le=86_400,
        ),
    ] = 120.0
