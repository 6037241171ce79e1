"""Policy settings of a run, shared by fleet and trainer."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from runs.config.rules.config_field import described as _field
from runs.config.rules.config_field import none_of, one_of


class PolicyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policy network that fleet and trainer use."""

    kind: Annotated[
        str,
        _field(
            "Policy",
            "Network: mlp; cnn for images; gru with memory, for any observations; or a registered "
            "policy.",
            essential=True,
            min_length=1,
            max_length=200,
        ),
    ] = "mlp"
    kwargs: Annotated[
        dict[str, Any],
        _field(
            "Policy arguments",
            "Keyword arguments of a registered policy.",
            when=(none_of("policy.kind", "mlp", "cnn", "gru"),),
            max_length=50,
        ),
    ] = {}
    hidden_sizes: Annotated[
        list[Annotated[int, Meta(ge=1, le=8192)]],
        _field(
            "Hidden layers",
            "Units of each hidden layer; for a gru, of the layers before its memory.",
            essential=True,
            when=(one_of("policy.kind", "mlp", "cnn", "gru"),),
            min_length=1,
            max_length=8,
        ),
    ] = msgspec.field(default_factory=lambda: [64, 64])
    recurrent_units: Annotated[
        int,
        _field(
            "Recurrent units",
            "Units of a gru's memory.",
            when=(one_of("policy.kind", "gru"),),
            ge=1,
            le=8192,
        ),
    ] = 128
    channels: Annotated[
        list[Annotated[int, Meta(ge=1, le=1024)]],
        _field(
            "Channels",
            "Channels of each convolution; each one halves the image size.",
            when=(one_of("policy.kind", "cnn", "gru"),),
            min_length=1,
            max_length=8,
        ),
    ] = msgspec.field(default_factory=lambda: [16, 32, 32])
    precision: Annotated[
        Literal["float32", "bfloat16", "float16"],
        _field(
            "Precision",
            "Number type in which the network computes an inference. Actions, log probabilities, "
            "values and states are float32. float16 needs a GPU.",
        ),
    ] = "float32"
    hung_after_seconds: Annotated[
        float,
        _field(
            "Policy hung after",
            "Replace a worker whose policy does not return from a call for this long.",
            unit="s",
            gt=0,
            le=86_400,
        ),
    ] = 120.0
