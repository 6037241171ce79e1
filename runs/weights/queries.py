"""Read the weights commands of a run."""

from typing import Final

from runs.lifecycle.models import Run
from runs.weights.models import WeightsCommand
from runs.weights.schemas import WeightsCommandRow, WeightsCommands
from web.rules.pages import PageRequest

COMMANDS_AT_MOST: Final = 200


def newest_command(run_id: int) -> WeightsCommand | None:
    """Return the command in effect, or None without commands."""
    return WeightsCommand.objects.filter(run_id=run_id).order_by("-number").first()


def pinned_step(run: Run, command: WeightsCommand | None) -> int | None:
    """Return the version that workers keep in the current epoch; None for the newest.

    Args:
        run: Run of the command.
        command: The newest command. A pin ends with its epoch.
    """
    if command is None or command.epoch != run.epoch:
        return None
    return command.pinned_step


def acting_step(run: Run, command: WeightsCommand | None) -> int:
    """Return the version that workers should use: the pinned or the newest one."""
    kept = pinned_step(run, command)
    return run.policy_step if kept is None else kept


def weights_commands(run: Run, page: PageRequest[int]) -> WeightsCommands:
    """Return the current weights settings of a run, and a page of commands, newest first."""
    found = WeightsCommand.objects.filter(run=run).order_by("-number")
    if page.after is not None:
        found = found.filter(number__lt=page.after)
    rows, cursor = page.cut(found[: page.limit + 1], lambda command: command.number)
    newest = newest_command(run.pk) if page.after is not None else next(iter(rows), None)
    return WeightsCommands(
        number=newest.number if newest else 0,
        pinned_step=pinned_step(run, newest),
        acting_step=acting_step(run, newest),
        newest_step=run.policy_step,
        results=[
            WeightsCommandRow(
                **{name: getattr(command, name) for name in WeightsCommandRow.__struct_fields__}
            )
            for command in rows
        ],
        next=cursor,
    )
