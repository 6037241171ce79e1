"""P9: a replay buffer's inserts and samples."""

from benchmarks import replaying
from benchmarks.bench import Bench, Figures, Row
from benchmarks.figures import Limit, Target
from benchmarks.load import OtherProcess, other_process
from benchmarks.peers import Reverb, running_reverb
from benchmarks.rolldeck_server import RolldeckServer

INSERTS = 640
SAMPLES = 1_600
CLIENTS = 4
BATCH_SIZE = 64


def run(bench: Bench) -> Figures:
    with bench.rolldeck() as rolldeck, other_process() as load, running_reverb() as reverb:
        tokens = _begin(rolldeck, load)

        def inserts() -> float:
            with bench.metered(rolldeck, per=INSERTS):
                return INSERTS / load.run(
                    replaying.insert, rolldeck.url, items=INSERTS, clients=CLIENTS
                )

        def samples() -> float:
            with bench.metered(rolldeck, per=SAMPLES):
                return SAMPLES / load.run(
                    replaying.sample, rolldeck.url, items=SAMPLES, tokens=tokens
                )

        inserted = bench.compare(
            "inserts", ours=inserts, peer=lambda: _of(reverb, "insert", INSERTS), better="more"
        )
        sampled = bench.compare(
            "samples", ours=samples, peer=lambda: _of(reverb, "sample", SAMPLES), better="more"
        )
    worst = None if bench.is_alone else min(inserted["ratio"], sampled["ratio"])
    return inserted | {"samples": sampled, "worst_ratio": worst}


def _begin(rolldeck: RolldeckServer, load: OtherProcess) -> list[str]:
    """Start a run whose fleet is this benchmark: the platform has no Ray to launch one.

    Returns a token for each trainer, because trainers are identified by their tokens.
    """
    body = {"name": replaying.RUN, "config": replaying.CONFIG, "start": True}
    rolldeck.call("POST", "/api/v1/runs", body, is_admin=True)
    load.run(replaying.open_session, rolldeck.url)
    return [_trainer_token(rolldeck, f"trainer {index}") for index in range(CLIENTS)]


def _trainer_token(rolldeck: RolldeckServer, name: str) -> str:
    body = {"name": name, "scopes": ["trainer"]}
    return str(rolldeck.call("POST", "/api/v1/tokens", body, is_admin=True)["token"])


def _of(reverb: Reverb, verb: str, count: int) -> float:
    return count / reverb.seconds(verb, count, CLIENTS)


ROW = Row(
    name="P9",
    measure="replay: items of 8 × 2,048 inserted durably by 4 clients (and sampled by 4) a second",
    peer="Reverb's server, in memory",
    unit="items/s",
    better="more",
    mark=Target(
        words="≥ 0.8×, inserts and samples",
        limits=(Limit(figure="worst_ratio", at_least=0.8),),
    ),
    goal=None,
    run=run,
)
