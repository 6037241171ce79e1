"""Settings of single sequences, in the open fields of a group.

Environments of Atropos state them in `overrides` (one object for each sequence),
`generation_params` and `group_overrides` (one object for the group). They are read as by Atropos'
example trainer, `pad_data_to_good_offset` in its ``data.py``.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

FIELDS: Final = ("overrides", "generation_params", "group_overrides")
"""The fields that are read; a temperature of an earlier one takes precedence."""


class Overrides(NamedTuple):
    """Settings of the S sequences of a group.

    Attributes:
        zero_advantage: ``[S]``: whether `set_advantage_to_zero` is set.
        temperature: ``[S]`` float32, NaN where none is stated. 0 and below count as 1.
    """

    zero_advantage: NDArray[np.bool_]
    temperature: NDArray[np.float32]


def overrides_of(fields: Mapping[str, Any], *, sequences: int) -> Overrides:
    """Return the settings of a group.

    `overrides` of another length than the group are ignored: it is unknown to which sequences they
    belong.

    Args:
        fields: The decoded values of :data:`FIELDS`, and any others.
        sequences: Number of sequences S.
    """
    own, *shared = [fields.get(name) for name in FIELDS]
    stated = [temperature for temperature in map(_temperature, shared) if temperature is not None]
    found = Overrides(
        np.zeros(sequences, dtype=np.bool_),
        np.full(sequences, stated[0] if stated else math.nan, dtype=np.float32),
    )
    if isinstance(own, Sequence) and len(own) == sequences:
        for row, settings in enumerate(own):
            if isinstance(settings, Mapping):
                found.zero_advantage[row] = bool(settings.get("set_advantage_to_zero"))
                temperature = _temperature(settings)
                if temperature is not None:
                    found.temperature[row] = temperature
    return found


def _temperature(settings: Any) -> float | None:
    """Return the temperature that an object states; None if it is absent or no number."""
    value = settings.get("temperature") if isinstance(settings, Mapping) else None
    try:
        temperature = math.nan if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(temperature):
        return None
    return temperature if temperature > 0 else 1.0
