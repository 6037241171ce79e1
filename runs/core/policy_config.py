"""Describe the policy that fleet and trainer agree on."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from runs.core.config_field import described as _field


class PolicyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policy that fleet and trainer agree on."""

    kind: Annotated[Literal["mlp"], _field("Policy", "Network architecture.")] = "mlp"
    hidden_sizes: Annotated[
        list[Annotated[int, Meta(ge=1, le=8192)]],
        _field("Hidden layers", "Units of each hidden layer.", min_length=1, max_length=8),
    ] = msgspec.field(default_factory=lambda: [64, 64])
