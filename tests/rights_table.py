"""Every route of the API with the callers that it permits, and those callers.

Rows name roles and scopes; `callers_of` expands them to users and tokens. The table is written
manually, independent of the views' permissions, which are compared with it.
"""

from typing import Any, Final, NamedTuple

from rest_framework.test import APIClient

from runs.lifecycle.models import Run
from tests.factories import make_run, make_token, make_user

PEOPLE: Final = ("viewer", "operator", "admin")
SCOPES: Final = ("trainer", "env", "worker", "read", "user", "metrics", "admin")
STRANGER: Final = "stranger"
# Each scope for all runs, for the run of the request and for another run.
TOKENS: Final = tuple(
    f"{scope} token{run}" for scope in SCOPES for run in ("", " of alpha", " of beta")
)
EVERYBODY: Final = (STRANGER, *PEOPLE, *TOKENS)

Rule = frozenset[str]
ANYONE: Final[Rule] = frozenset({STRANGER})
KNOWN: Final[Rule] = frozenset({"known"})
ADMINISTER: Final[Rule] = frozenset({"admin"})
OPERATE: Final = ADMINISTER | {"operator"}
# Viewers, and the user tokens of viewers.
VIEW: Final = OPERATE | {"viewer", "user"}
READ: Final = VIEW | {"read"}
# A token that is bound to a run reads the data of its run there.
READ_OWN: Final = READ | {"own run"}
TRAIN: Final = ADMINISTER | {"trainer"}
WORK: Final = ADMINISTER | {"worker"}
PUSH: Final = WORK | {"env"}
KNOW_RUN: Final = READ | TRAIN | PUSH
IN_A_BROWSER: Final[Rule] = frozenset({"no token", *PEOPLE})
# The Atropos routes accept no sessions: a page of another site could use them.
TOKEN_ONLY: Final[Rule] = frozenset({"no session"})
TOKEN_ADMIN: Final = TOKEN_ONLY | ADMINISTER
TOKEN_TRAIN: Final = TOKEN_ONLY | TRAIN
TOKEN_ENV: Final = TOKEN_ONLY | ADMINISTER | {"env"}
TOKEN_READ: Final = TOKEN_ONLY | READ
TOKEN_POLL: Final = TOKEN_READ | TOKEN_ENV | TOKEN_TRAIN

ROWS: Final[dict[tuple[str, str], frozenset[str]]] = {
    ("GET", "/api/v1/session"): ANYONE,
    ("POST", "/api/v1/session"): ANYONE,
    ("DELETE", "/api/v1/session"): ANYONE,
    ("PUT", "/api/v1/session/password"): IN_A_BROWSER,
    ("GET", "/api/v1/sessions"): KNOWN,
    ("DELETE", "/api/v1/sessions"): KNOWN,
    ("GET", "/api/v1/audit"): READ,
    ("GET", "/api/v1/audit.csv"): READ,
    ("GET", "/api/v1/alerts"): READ,
    ("GET", "/api/v1/alerts/<large:alert>"): READ,
    ("POST", "/api/v1/alerts/<large:alert>/acknowledge"): OPERATE,
    ("POST", "/api/v1/alerts/<large:alert>/resolve"): OPERATE,
    ("GET", "/api/v1/alerts/rules"): READ,
    ("POST", "/api/v1/alerts/rules"): OPERATE,
    ("GET", "/api/v1/alerts/kinds"): READ,
    ("GET", "/api/v1/alerts/rules/<large:rule>"): READ,
    ("PUT", "/api/v1/alerts/rules/<large:rule>"): OPERATE,
    ("DELETE", "/api/v1/alerts/rules/<large:rule>"): OPERATE,
    ("GET", "/api/v1/alerts/snoozes"): READ,
    ("POST", "/api/v1/alerts/snoozes"): OPERATE,
    ("DELETE", "/api/v1/alerts/snoozes/<large:snooze>"): OPERATE,
    ("GET", "/api/v1/webhooks"): READ,
    ("POST", "/api/v1/webhooks/<slug:webhook>/test"): OPERATE,
    ("GET", "/api/v1/limits"): KNOWN,
    ("GET", "/api/v1/run-config-schema"): KNOWN,
    ("POST", "/api/v1/run-checks"): OPERATE,
    ("GET", "/api/v1/cluster"): READ,
    ("PUT", "/api/v1/cluster/nodes/<slug:node>/cordon"): ADMINISTER,
    ("DELETE", "/api/v1/cluster/nodes/<slug:node>/cordon"): ADMINISTER,
    ("GET", "/api/v1/cluster/nodes/<slug:node>/usage"): READ,
    ("GET", "/api/v1/server"): KNOWN,
    ("GET", "/api/v1/server/retention"): READ,
    ("GET", "/api/v1/server/notice"): KNOWN,
    ("PUT", "/api/v1/server/notice"): OPERATE,
    ("DELETE", "/api/v1/server/notice"): OPERATE,
    ("GET", "/api/v1/environments"): READ,
    ("GET", "/api/v1/environments/detail"): READ,
    ("POST", "/api/v1/environments/probes"): OPERATE,
    ("PUT", "/api/v1/environments/approvals"): ADMINISTER,
    ("GET", "/api/v1/views"): READ,
    ("POST", "/api/v1/views"): VIEW,
    ("PUT", "/api/v1/views/<large:view>"): VIEW,
    ("DELETE", "/api/v1/views/<large:view>"): VIEW,
    ("GET", "/api/v1/presets"): READ,
    ("POST", "/api/v1/presets"): OPERATE,
    ("GET", "/api/v1/presets/<slug:preset>"): READ,
    ("PATCH", "/api/v1/presets/<slug:preset>"): OPERATE,
    ("DELETE", "/api/v1/presets/<slug:preset>"): OPERATE,
    ("GET", "/api/v1/projects"): READ,
    ("POST", "/api/v1/projects"): OPERATE,
    ("GET", "/api/v1/projects/<slug:project>"): READ,
    ("PATCH", "/api/v1/projects/<slug:project>"): OPERATE,
    ("DELETE", "/api/v1/projects/<slug:project>"): OPERATE,
    ("GET", "/api/v1/tokens"): OPERATE,
    ("POST", "/api/v1/tokens"): OPERATE,
    ("DELETE", "/api/v1/tokens/<small:token>"): OPERATE,
    ("GET", "/api/v1/segments"): ADMINISTER,
    ("GET", "/api/v1/runs"): READ,
    ("GET", "/api/v1/runs.csv"): READ,
    ("GET", "/api/v1/run-columns"): READ,
    ("GET", "/api/v1/run-filter"): READ,
    ("GET", "/api/v1/run-filter/values"): READ,
    ("GET", "/api/v1/trajectories"): READ_OWN,
    ("GET", "/api/v1/trajectories/columns"): READ_OWN,
    ("GET", "/api/v1/trajectories/filter"): READ_OWN,
    ("GET", "/api/v1/trajectories/filter/values"): READ_OWN,
    ("GET", "/api/v1/run-activity"): READ,
    ("GET", "/api/v1/run-diagnoses"): READ,
    ("POST", "/api/v1/run-actions"): OPERATE,
    ("PUT", "/api/v1/runs/<slug:run>/tags"): OPERATE,
    ("GET", "/api/v1/runs/<slug:run>/notes"): READ,
    ("PUT", "/api/v1/runs/<slug:run>/notes"): OPERATE,
    ("POST", "/api/v1/runs"): OPERATE,
    ("GET", "/api/v1/runs/<slug:run>"): KNOW_RUN,
    ("PATCH", "/api/v1/runs/<slug:run>"): OPERATE,
    ("DELETE", "/api/v1/runs/<slug:run>"): OPERATE,
    ("GET", "/api/v1/runs/<slug:run>/deletion"): OPERATE,
    ("GET", "/api/v1/deletions"): READ,
    ("POST", "/api/v1/runs/<slug:run>/start"): OPERATE,
    ("POST", "/api/v1/runs/<slug:run>/pause"): OPERATE,
    ("POST", "/api/v1/runs/<slug:run>/resume"): OPERATE,
    ("POST", "/api/v1/runs/<slug:run>/drain"): OPERATE,
    ("POST", "/api/v1/runs/<slug:run>/stop"): OPERATE,
    ("POST", "/api/v1/runs/<slug:run>/kill"): OPERATE,
    ("GET", "/api/v1/runs/<slug:run>/events"): READ,
    ("GET", "/api/v1/runs/<slug:run>/environments"): READ,
    ("PATCH", "/api/v1/runs/<slug:run>/environments/<small:env_id>"): OPERATE,
    ("POST", "/api/v1/runs/<slug:run>/reset"): OPERATE,
    ("GET", "/api/v1/runs/<slug:run>/weights"): READ | TRAIN | WORK,
    ("GET", "/api/v1/runs/<slug:run>/weights/syncs"): READ,
    ("GET", "/api/v1/runs/<slug:run>/environments/push-rates"): READ,
    ("GET", "/api/v1/runs/<slug:run>/queue"): READ,
    ("GET", "/api/v1/runs/<slug:run>/batches/<uuid:batch>/items"): READ,
    ("GET", "/api/v1/runs/<slug:run>/trainers"): READ | TRAIN,
    ("POST", "/api/v1/runs/<slug:run>/trainers"): TRAIN,
    ("POST", "/api/v1/runs/<slug:run>/weights"): TRAIN,
    ("GET", "/api/v1/runs/<slug:run>/weights/commands"): READ | TRAIN | WORK,
    ("POST", "/api/v1/runs/<slug:run>/weights/pin"): OPERATE,
    ("POST", "/api/v1/runs/<slug:run>/weights/unpin"): OPERATE,
    ("POST", "/api/v1/runs/<slug:run>/weights/sync"): OPERATE,
    ("GET", "/api/v1/runs/<slug:run>/weights/current"): READ | TRAIN | WORK,
    ("GET", "/api/v1/runs/<slug:run>/weights/<small:epoch>/<step:step>"): READ | TRAIN | WORK,
    ("POST", "/api/v1/runs/<slug:run>/groups/discard"): OPERATE,
    ("GET", "/api/v1/runs/<slug:run>/groups/export"): READ,
    ("GET", "/api/v1/runs/<slug:run>/groups/<large:group>"): READ,
    ("GET", "/api/v1/runs/<slug:run>/groups/<large:group>/content"): READ,
    ("GET", "/api/v1/runs/<slug:run>/groups/<large:group>/sequences"): READ,
    ("GET", "/api/v1/runs/<slug:run>/groups/<large:group>/sequences/<small:sequence>"): READ,
    (
        "GET",
        "/api/v1/runs/<slug:run>/groups/<large:group>/sequences/<small:sequence>/messages",
    ): READ,
    ("POST", "/api/v1/runs/<slug:run>/groups"): PUSH,
    ("POST", "/api/v1/runs/<slug:run>/marks"): OPERATE,
    ("GET", "/api/v1/runs/<slug:run>/fragments/<large:fragment>"): READ,
    ("GET", "/api/v1/runs/<slug:run>/fragments/<large:fragment>/steps"): READ,
    ("POST", "/api/v1/runs/<slug:run>/fragments"): WORK,
    ("POST", "/api/v1/runs/<slug:run>/fragments/fetch"): TRAIN,
    ("POST", "/api/v1/runs/<slug:run>/fragments/ack"): TRAIN,
    ("POST", "/api/v1/runs/<slug:run>/fragments/priorities"): TRAIN,
    ("GET", "/api/v1/runs/<slug:run>/batches"): READ,
    ("GET", "/api/v1/runs/<slug:run>/batches/preview"): READ,
    ("POST", "/api/v1/runs/<slug:run>/batches/<uuid:batch>/release"): OPERATE,
    ("POST", "/api/v1/runs/<slug:run>/batches/<uuid:batch>/discard"): OPERATE,
    ("GET", "/api/v1/runs/<slug:run>/mixing"): READ,
    ("POST", "/api/v1/runs/<slug:run>/batches/next"): TRAIN,
    ("GET", "/api/v1/runs/<slug:run>/batches/<uuid:batch>"): TRAIN,
    ("POST", "/api/v1/runs/<slug:run>/batches/<str:batch>/ack"): TRAIN,
    ("GET", "/api/v1/runs/<slug:run>/ledger"): READ,
    ("GET", "/api/v1/runs/<slug:run>/bias"): READ,
    ("GET", "/api/v1/runs/<slug:run>/archives"): READ,
    ("POST", "/api/v1/runs/<slug:run>/archives"): OPERATE,
    ("GET", "/api/v1/runs/<slug:run>/archives/<small:archive>"): READ,
    ("DELETE", "/api/v1/runs/<slug:run>/archives/<small:archive>"): OPERATE,
    ("GET", "/api/v1/runs/<slug:run>/archives/<small:archive>/file"): OPERATE,
    ("POST", "/api/v1/runs/<slug:run>/restorations"): OPERATE,
    ("GET", "/api/v1/runs/<slug:run>/captures"): READ,
    ("GET", "/api/v1/runs/<slug:run>/captures/<slug:session>"): READ,
    ("POST", "/api/v1/runs/<slug:run>/captures/<slug:session>/calls"): PUSH,
    ("POST", "/api/v1/runs/<slug:run>/capture-scores"): PUSH,
    ("GET", "/api/v1/runs/<slug:run>/tensors"): READ | TRAIN,
    ("PUT", "/api/v1/runs/<slug:run>/tensors"): TRAIN,
    ("POST", "/api/v1/runs/<slug:run>/tensors/read"): TRAIN,
    ("POST", "/api/v1/runs/<slug:run>/tensors/delete"): TRAIN,
    ("POST", "/api/v1/runs/<slug:run>/tensors/move"): TRAIN,
    ("GET", "/api/v1/runs/<slug:run>/tokenizer"): KNOW_RUN,
    ("PUT", "/api/v1/runs/<slug:run>/tokenizer"): TRAIN | PUSH,
    ("GET", "/api/v1/runs/<slug:run>/tokenizer/file"): KNOW_RUN,
    ("GET", "/api/v1/runs/<slug:run>/followers"): READ | TRAIN,
    ("GET", "/api/v1/runs/<slug:run>/followers/<slug:follower>"): TRAIN,
    ("PUT", "/api/v1/runs/<slug:run>/followers/<slug:follower>"): TRAIN,
    ("DELETE", "/api/v1/runs/<slug:run>/followers/<slug:follower>"): TRAIN,
    ("POST", "/api/v1/runs/<slug:run>/followers/<slug:follower>/fetch"): TRAIN,
    ("POST", "/api/v1/runs/<slug:run>/followers/<slug:follower>/ack"): TRAIN,
    ("GET", "/api/v1/runs/<slug:run>/pipeline"): READ,
    ("GET", "/api/v1/runs/<slug:run>/fleet"): READ,
    ("GET", "/api/v1/runs/<slug:run>/fleet/control"): WORK,
    ("POST", "/api/v1/runs/<slug:run>/fleet/report"): WORK,
    ("GET", "/api/v1/runs/<slug:run>/fleet/attempts"): READ,
    ("GET", "/api/v1/runs/<slug:run>/fleet/logs"): READ,
    ("POST", "/api/v1/runs/<slug:run>/fleet/logs/<uuid:log_request>"): WORK,
    ("POST", "/api/v1/runs/<slug:run>/fleet/workers/<small:worker>/restart"): OPERATE,
    ("POST", "/api/v1/runs/<slug:run>/fleet/workers/<small:worker>/cordon"): OPERATE,
    ("POST", "/api/v1/runs/<slug:run>/fleet/workers/<small:worker>/uncordon"): OPERATE,
    ("POST", "/api/v1/runs/<slug:run>/fleet/workers/<small:worker>/stacks"): OPERATE,
    ("GET", "/api/v1/runs/<slug:run>/fleet/workers/<small:worker>/stacks"): READ,
    ("GET", "/api/v1/runs/<slug:run>/recordings"): READ,
    ("POST", "/api/v1/runs/<slug:run>/recordings"): OPERATE,
    ("PUT", "/api/v1/runs/<slug:run>/recordings/<uuid:recording>"): WORK,
    ("GET", "/api/v1/runs/<slug:run>/recordings/<uuid:recording>/content"): READ,
    ("GET", "/api/v1/runs/<slug:run>/episodes"): READ,
    ("GET", "/api/v1/runs/<slug:run>/episodes/summary"): READ,
    ("GET", "/api/v1/runs/<slug:run>/episodes/detail"): READ,
    ("GET", "/api/v1/runs/<slug:run>/episodes/distribution"): READ,
    ("GET", "/api/v1/runs/<slug:run>/lessons"): READ,
    ("POST", "/api/v1/runs/<slug:run>/lessons/tasks"): WORK,
    ("GET", "/api/v1/runs/<slug:run>/lessons/history"): READ,
    ("POST", "/api/v1/runs/<slug:run>/lessons/<str:lesson>/outcomes"): WORK,
    ("PUT", "/api/v1/runs/<slug:run>/lessons/<str:lesson>/steering"): OPERATE,
    ("GET", "/api/v1/runs/<slug:run>/evaluations/<uuid:evaluation>"): READ,
    ("GET", "/api/v1/runs/<slug:run>/lessons/<str:lesson>/micro-evaluations"): READ,
    ("GET", "/api/v1/runs/<slug:run>/lessons/<str:lesson>/passes"): READ,
    ("GET", "/api/v1/runs/<slug:run>/lessons/<str:lesson>/problems"): READ,
    ("GET", "/api/v1/runs/<slug:run>/evaluations"): READ,
    ("POST", "/api/v1/runs/<slug:run>/evaluations"): OPERATE,
    ("PUT", "/api/v1/runs/<slug:run>/evaluations/<uuid:evaluation>/lease"): WORK,
    ("GET", "/api/v1/runs/<slug:run>/metrics"): READ,
    ("POST", "/api/v1/runs/<slug:run>/metrics"): TRAIN | {"env"},
    ("GET", "/api/v1/runs/<slug:run>/metrics/keys"): READ,
    ("GET", "/api/v1/runs/<slug:run>/metrics/samples"): READ,
    ("GET", "/api/v1/runs/<slug:run>/metrics/lines"): READ,
    ("GET", "/api/v1/runs/<slug:run>/metrics/context"): READ,
    ("GET", "/api/v1/runs/<slug:run>/metrics/names"): READ,
    ("GET", "/api/v1/runs/<slug:run>/annotations"): READ,
    ("POST", "/api/v1/runs/<slug:run>/annotations"): TRAIN | OPERATE,
    ("DELETE", "/api/v1/runs/<slug:run>/annotations/<large:annotation>"): TRAIN | OPERATE,
    ("GET", "/api/v1/metrics/lines"): READ,
    ("GET", "/metrics"): ADMINISTER | {"metrics"},
    ("POST", "/register"): TOKEN_TRAIN,
    ("POST", "/register-env"): TOKEN_ENV,
    ("POST", "/disconnect-env"): TOKEN_ENV,
    ("GET", "/wandb_info"): TOKEN_POLL,
    ("GET", "/info"): TOKEN_POLL,
    ("GET", "/status"): TOKEN_POLL,
    ("GET", "/status-env"): TOKEN_ENV,
    ("POST", "/status-env"): TOKEN_ENV,
    ("POST", "/scored_data"): TOKEN_ENV,
    ("POST", "/scored_data_list"): TOKEN_ENV,
    ("GET", "/batch"): TOKEN_TRAIN,
    ("GET", "/latest_example"): TOKEN_READ | TOKEN_TRAIN,
    ("GET", "/reset_data"): TOKEN_ADMIN,
    ("GET", "/atropos/<slug:run>/"): ANYONE,
    ("POST", "/atropos/<slug:run>/register"): TOKEN_TRAIN,
    ("POST", "/atropos/<slug:run>/register-env"): TOKEN_ENV,
    ("POST", "/atropos/<slug:run>/disconnect-env"): TOKEN_ENV,
    ("GET", "/atropos/<slug:run>/wandb_info"): TOKEN_POLL,
    ("GET", "/atropos/<slug:run>/info"): TOKEN_POLL,
    ("GET", "/atropos/<slug:run>/status"): TOKEN_POLL,
    ("GET", "/atropos/<slug:run>/status-env"): TOKEN_ENV,
    ("POST", "/atropos/<slug:run>/status-env"): TOKEN_ENV,
    ("POST", "/atropos/<slug:run>/scored_data"): TOKEN_ENV,
    ("POST", "/atropos/<slug:run>/scored_data_list"): TOKEN_ENV,
    ("GET", "/atropos/<slug:run>/batch"): TOKEN_TRAIN,
    ("GET", "/atropos/<slug:run>/latest_example"): TOKEN_READ | TOKEN_TRAIN,
    ("GET", "/atropos/<slug:run>/reset_data"): TOKEN_ADMIN,
}


def callers_of(rule: Rule, address: str) -> set[str]:
    """Return the callers that a row permits; on routes of a run they request alpha."""
    if rule == ANYONE:
        return set(EVERYBODY)
    if rule == KNOWN:
        return set(EVERYBODY) - {STRANGER}
    if rule == IN_A_BROWSER:
        return set(PEOPLE)
    people = set() if rule >= TOKEN_ONLY else rule & set(PEOPLE)
    bound = ("", " of alpha") if "<slug:run>" in address else ("",)
    if "own run" in rule:
        bound = ("", " of alpha", " of beta")
    return people | {f"{scope} token{run}" for scope in rule & set(SCOPES) for run in bound}


class Principal(NamedTuple):
    """A caller: a client that sends its credentials, and the credentials."""

    client: APIClient
    person: Any = None
    token: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of its token, if it has one."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def make_principals() -> dict[str, Principal]:
    """Create the runs alpha and beta, and every caller of the table."""
    runs: dict[str, Run] = {name: make_run(name=name) for name in ("alpha", "beta")}
    principals = {STRANGER: Principal(APIClient())}
    for role in PEOPLE:
        person = make_user(username=role, role=role)
        client = APIClient()
        client.force_login(person)
        principals[role] = Principal(client, person=person)
    for name in TOKENS:
        scope, _, run = name.replace(" of ", " ").replace(" token", "", 1).partition(" ")
        # The role of a user token is its owner's.
        owner = {"created_by": principals["viewer"].person} if scope == "user" else {}
        _, text = make_token(scope, run=runs.get(run), **owner)
        headers = {"Authorization": f"Bearer {text}"}
        principals[name] = Principal(APIClient(headers=headers), token=text)
    return principals
