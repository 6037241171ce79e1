"""Command `rolldeck chaos`: a campaign of faults against a platform."""

import tempfile
from pathlib import Path

import click
import msgspec

from rolldeck.commands.base import ApiCommand, Failure, State


@click.command("chaos", cls=ApiCommand)
@click.option("--minutes", type=click.FloatRange(0.1, 1440), default=5.0, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option(
    "--rate",
    type=click.FloatRange(0.1, 1000),
    default=30.0,
    show_default=True,
    help="Pushes a second.",
)
@click.option(
    "--groups",
    type=click.IntRange(4, 1024),
    default=16,
    show_default=True,
    help="Groups of a large push.",
)
@click.option("--faults", default="", help="Parts of the names of faults, separated by commas.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the history and the report; a temporary one by default.",
)
@click.option("--keep", is_flag=True, help="Keep the runs of the campaign.")
def chaos(
    state: State,
    minutes: float,
    seed: int,
    rate: float,
    groups: int,
    faults: str,
    out: Path | None,
    keep: bool,
) -> int:
    """Push, train and read through a proxy with faults; check every group.

    Creates runs on the platform, and deletes them at the end. The faults are those of
    the network between the clients and the platform; kill or restart parts of a staging platform
    meanwhile to test them too. Exit code 1 if a rule is broken.
    """
    from rolldeck.chaos.campaign import Campaign
    from rolldeck.chaos.report import write_report

    with (
        tempfile.TemporaryDirectory(prefix="rolldeck-chaos-") as temporary,
        state.connected() as it,
    ):
        folder = out or Path(temporary)
        history = folder / f"history-{seed}"
        if history.exists():
            raise Failure(f"{history} exists: give another --seed or --out")
        history.mkdir(parents=True)
        campaign = Campaign(it.url, state.token, history, seed=seed, rate=rate, groups=groups)
        try:
            try:
                chosen = campaign.faults_named(campaign.network_faults(), faults)
            except ValueError as error:
                raise Failure(str(error)) from error
            result = campaign.run(
                chosen,
                seconds=60 * minutes,
                on_event=lambda line: click.echo(line, err=True),
            )
        finally:
            if not keep:
                campaign.delete_runs()
            campaign.close()
        text = write_report(folder, result)
    state.print(msgspec.to_builtins(result), lambda _: text)
    return int(bool(result.violations))
