"""Remedies for refused pushes, by the reason code of the refusal."""

from typing import Final

_LIMIT: Final = (
    "Send smaller groups or fewer per push, or raise the setting that the message names "
    "(`ROLLDECK_` and its name in capitals)."
)
_LENGTHS: Final = (
    "Correct the field in the environment, or set `lenient` on the run to accept groups with "
    "inconsistent lengths."
)
_NUMBER: Final = "Replace NaN and infinity in the environment before it pushes."
_BODY: Final = "Correct how the environment encodes its requests."
ADVICE: Final[dict[str, str]] = {
    "finite_number": _NUMBER,
    "unknown_environment": (
        "Register the environment in this run, and push with the id of the answer; or set "
        "`lenient` on the run to accept groups of unknown environments."
    ),
    "length_mismatch": _LENGTHS,
    "too_large": _LIMIT,
    "too_long": _LIMIT,
    "json_invalid": _BODY,
    "unknown_encoding": _BODY,
    "invalid": _BODY,
    "too_slow": "Check the network between the environment and the server.",
    "idempotency_conflict": "Use a new `Idempotency-Key` for each push.",
    "run_not_accepting": "Start the run, or push to another one.",
}
"""Reasons without an entry name a field of the group."""
FIELD: Final = "Correct the field that the message names in the environment."


def advice_for(reason: str) -> str:
    """Return the remedy for refusals with a reason code."""
    return ADVICE.get(reason, FIELD)
