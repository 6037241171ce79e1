"""Show the platform a fleet of any size, without a cluster."""

import time
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from rollouts import services
from rollouts.core.launch import LaunchOrder
from rollouts.fleet.rollout_manager import RolloutManager
from rollouts.fleet.settings import FleetSettings
from rollouts.fleet.simulated_workers import SimulatedWorkers, Simulation
from runs import services as run_services
from runs.core.lifecycle import RunVerb
from runs.selectors import run_named

ACTOR = "manage.py simulate"


class Command(BaseCommand):
    """Create a run and be its fleet for a while: a real manager over simulated workers."""

    help = "Report a simulated fleet to a running platform; needs ROLLDECK_SIMULATION=1."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the size of the fleet and what its work is like."""
        defaults = Simulation()
        parser.add_argument("--run", default="simulated", help="name of the run to create")
        parser.add_argument("--url", help="of the platform; by default this deck's")
        parser.add_argument("--workers", type=int, default=2000)
        parser.add_argument("--slots", type=int, default=8, help="env slots of each worker")
        parser.add_argument("--seconds", type=float, default=60.0)
        parser.add_argument("--step-seconds", type=float, default=defaults.step_seconds)
        parser.add_argument("--episode-length", type=int, default=defaults.episode_length)
        parser.add_argument("--failures-per-hour", type=float, default=defaults.failures_per_hour)

    def handle(self, *_args: Any, **asked: Any) -> None:
        """Create the run, keep its manager going, and kill the run in the end."""
        if not settings.ROLLDECK_SIMULATION:
            raise CommandError("an administrator must set ROLLDECK_SIMULATION=1 first")
        url = asked["url"] or settings.ROLLDECK_PUBLIC_URL
        order = self._launch(asked, url)
        simulation = Simulation(
            step_seconds=asked["step_seconds"],
            episode_length=asked["episode_length"],
            failures_per_hour=asked["failures_per_hour"],
        )
        manager = RolloutManager(_settings(order), SimulatedWorkers(simulation))
        self.stdout.write(f"run {order.run}: {asked['workers']} simulated workers")
        try:
            time.sleep(asked["seconds"])
        except KeyboardInterrupt:
            self.stdout.write("ended early")
        finally:
            manager.shutdown()
            self._kill(order)

    def _launch(self, asked: dict[str, Any], url: str) -> LaunchOrder:
        now = timezone.now()
        fleet = {
            "num_workers": asked["workers"],
            "envs_per_worker": asked["slots"],
            "envs_per_process": asked["slots"],
            "inference_batch_size": asked["slots"],
        }
        order = services.launch_simulation(
            name=asked["run"], config={"fleet": fleet}, platform_url=url, actor=ACTOR, now=now
        )
        if order is None:
            raise CommandError(f"the run {asked['run']} was not launched: it is no longer starting")
        return order

    def _kill(self, order: LaunchOrder) -> None:
        run_id = run_named(order.run).pk
        now = timezone.now()
        run_services.ask(run_id=run_id, verb=RunVerb.KILL, actor=ACTOR, reason="over", now=now)


def _settings(order: LaunchOrder) -> FleetSettings:
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
