"""Simulation of a fleet of any size, without a cluster."""

import time
from contextlib import suppress
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from rollouts.control.rules.launch import LaunchRequest
from rollouts.control.services.launches import launch_simulation
from rollouts.fleet.manager.manager import RolloutManager
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.simulated.workers import SimulatedWorkers
from runs.config.rules.simulated_fleet import Simulation, simulation_of
from runs.lifecycle.queries.runs import run_named
from runs.lifecycle.rules.lifecycle import MoveNotAllowed, RunVerb
from runs.lifecycle.services.lifecycle import change_status

ACTOR = "manage.py simulate"
SPEC = "simulated:steady"
POLL_SECONDS = 0.2


class Command(BaseCommand):
    """Create a run and act as its fleet: a real manager over simulated workers."""

    help = "Report a simulated fleet to a running platform; needs ROLLDECK_SIMULATION=1."

    def add_arguments(self, parser: CommandParser) -> None:
        """Define the options of the fleet's size and workload."""
        defaults = Simulation()
        parser.add_argument("--run", default="simulated", help="name of the run to create")
        parser.add_argument("--url", help="URL of the platform; default: this server")
        parser.add_argument("--workers", type=int, default=2000)
        parser.add_argument("--slots", type=int, default=8, help="env slots of each worker")
        parser.add_argument("--seconds", type=float, default=60.0)
        parser.add_argument("--step-seconds", type=float, default=defaults.step_seconds)
        parser.add_argument("--episode-length", type=int, default=defaults.episode_length)
        parser.add_argument("--failures-per-hour", type=float, default=defaults.failures_per_hour)
        parser.add_argument(
            "--fragments-per-second",
            type=float,
            default=defaults.fragments_per_second,
            help="maximum number of real fragments sent by the whole fleet",
        )

        parser.add_argument(
            "--serve", action="store_true", help="serve the simulated fragments to trainers"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Create the run, keep its manager running, and kill the run at the end."""
        if not settings.ROLLDECK_SIMULATION:
            raise CommandError("ROLLDECK_SIMULATION=1 is not set; an administrator must set it")
        url = options["url"] or settings.ROLLDECK_PUBLIC_URL
        order = self._launch(options, url)
        fleet = _settings(order)
        environment = fleet.config.environment
        simulation = simulation_of(environment.spec, environment.kwargs) or Simulation()
        manager = RolloutManager(fleet, SimulatedWorkers(simulation, settings=fleet))
        self.stdout.write(f"run {order.run}: {options['workers']} simulated workers")
        until = time.monotonic() + options["seconds"]
        try:
            while time.monotonic() < until and not manager.is_stopped:
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            self.stdout.write("ended early")
        finally:
            manager.shutdown()
            self._kill(order)

    def _launch(self, options: dict[str, Any], url: str) -> LaunchRequest:
        now = timezone.now()
        fleet = {
            "num_workers": options["workers"],
            "envs_per_worker": options["slots"],
            "envs_per_process": options["slots"],
            "inference_batch_size": options["slots"],
        }
        names = ("step_seconds", "episode_length", "failures_per_hour", "fragments_per_second")
        kwargs = {name: options[name] for name in names}
        config = {"environment": {"spec": SPEC, "kwargs": kwargs}, "fleet": fleet}
        config["buffer"] = {"serves_simulated": options["serve"]}
        order = launch_simulation(
            name=options["run"], config=config, platform_url=url, actor=ACTOR, now=now
        )
        if order is None:
            raise CommandError(
                f"the run {options['run']} was not launched: it is no longer starting"
            )
        return order

    def _kill(self, order: LaunchRequest) -> None:
        run_id = run_named(order.run).pk
        now = timezone.now()
        with suppress(MoveNotAllowed):  # it was ended elsewhere
            change_status(run_id=run_id, verb=RunVerb.KILL, actor=ACTOR, reason="over", now=now)


def _settings(order: LaunchRequest) -> FleetSettings:
    return msgspec.convert(
        {
            "platform_url": order.platform_url,
            "token": order.token,
            "run": order.run,
            "run_config": order.config,
            "incarnation": order.incarnation,
            "run_key": order.run_key,
        },
        FleetSettings,
    )
