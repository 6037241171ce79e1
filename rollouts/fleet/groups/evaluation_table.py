"""Tables of evaluations for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

HEAD = ["lesson", "problems", "success", "90 %", "reward", "90 %", "tokens", "cut"]
TEXT_SHOWN = 60


def table(results: Mapping[str, Mapping[str, Any] | None]) -> str:
    """Return one row per lesson, followed by samples.

    Args:
        results: Figures by lesson as plain values; None for a lesson without rollouts.
    """
    ks = sorted({int(k) for one in results.values() if one for k in one["pass_at"]} - {1})
    rows = [[*HEAD, *(f"pass@{k}" for k in ks)]]
    rows += [_row(name, one, ks) for name, one in results.items()]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    for name, one in results.items():
        lines += _samples(name, one["samples"] if one else [])
    return "\n".join(lines)


def _row(name: str, figures: Mapping[str, Any] | None, ks: Sequence[int]) -> list[str]:
    if figures is None:
        return [name, "0", *["–"] * (len(HEAD) - 2 + len(ks))]
    return [
        name,
        str(figures["problems"]),
        *_interval(figures["success"]),
        *_interval(figures["reward"]),
        str(figures["tokens"]),
        str(figures["truncated"]),
        *(f"{figures['pass_at'][str(k)]:.3f}" for k in ks),
    ]


def _interval(value: Mapping[str, float]) -> tuple[str, str]:
    return f"{value['estimate']:.3f}", f"{value['low']:.3f}–{value['high']:.3f}"


def _samples(name: str, samples: Sequence[Mapping[str, Any]]) -> list[str]:
    if not samples:
        return []
    shown = [f"\n{name}"]
    for sample in samples:
        mark = "✓" if sample["is_correct"] else "✗"
        shown.append(
            f"  {mark} {sample['reward']:5.2f}  {_short(sample['prompt'])} → "
            f"{_short(sample['response'])}"
        )
    return shown


def _short(text: str) -> str:
    plain = repr(text)[1:-1]
    return plain if len(plain) <= TEXT_SHOWN else plain[: TEXT_SHOWN - 1] + "…"
