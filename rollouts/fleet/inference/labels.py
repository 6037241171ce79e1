"""Labels of weights in vLLM: the run and the version, as in ``my-run/1/42``."""

from rollouts.fleet.engine.engine import Version


def label_of(run: str, version: Version) -> str:
    """Return the label of a version of a run's weights."""
    return f"{run}/{version[0]}/{version[1]}"


def version_in(label: str, *, run: str) -> Version | None:
    """Return the version that a label names; None for a label of another form.

    vLLM labels the weights that it loads at its start with ``default``.

    Args:
        label: Label of an answer or of a server.
        run: Name of the run; empty for an evaluation of a checkpoint without a run.

    Raises:
        ValueError: If the label names another run.
    """
    owner, *numbers = label.rsplit("/", 2)
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        return None
    if owner != run and run:
        raise ValueError(f"the weights {label!r} belong to another run than {run!r}")
    if owner != run:
        raise ValueError(f"the server has the weights {label!r} of a run, not its checkpoint's")
    return int(numbers[0]), int(numbers[1])


def owner_of(label: str) -> tuple[str, str]:
    """Return the run and the version, as in ``1/42``, of a label with a version."""
    owner, epoch, step = label.rsplit("/", 2)
    return owner, f"{epoch}/{step}"
