import pytest

from runs.access import rules
from runs.access.rules import Caller, MalformedCredentials, Role, token_in

ANONYMOUS = Caller(identity="address:192.0.2.1")
VIEWER = Caller(identity="user:vera", role=Role.VIEWER)
OPERATOR = Caller(identity="user:olga", role=Role.OPERATOR)
ADMIN = Caller(identity="user:ada", role=Role.ADMIN)


def machine(*scopes: str, run: str | None = None, role: Role = Role.ANONYMOUS) -> Caller:
    return Caller(identity="token:1", scopes=frozenset(scopes), run=run, role=role)


@pytest.mark.parametrize(
    ("caller", "may"),
    [
        (ANONYMOUS, ""),
        (VIEWER, "read"),
        (OPERATOR, "read operate"),
        (ADMIN, "read operate administer act"),
        (machine("trainer"), "act"),
        (machine("trainer", run="alpha"), "act"),
        (machine("trainer", run="beta"), ""),
        (machine("env"), ""),
        (machine("worker"), ""),
        (machine("read"), "read"),
        (machine("read", run="alpha"), "read"),
        (machine("read", run="beta"), ""),
        (machine("metrics"), ""),
        (machine("admin"), "read operate administer act"),
        (machine("admin", run="beta"), ""),
        (machine("user", role=Role.OPERATOR), "read operate"),
        (machine("user", role=Role.VIEWER), "read"),
        (machine("user", role=Role.ADMIN, run="beta"), ""),
    ],
    ids=str,
)
def test_the_rights_of_a_caller_match_the_table(caller: Caller, may: str) -> None:
    allowed = {
        "read": rules.may_read(caller, run="alpha"),
        "operate": rules.may_operate(caller, run="alpha"),
        "administer": rules.may_administer(caller, run="alpha"),
        "act": rules.act_as("trainer").allows(caller, run="alpha"),
    }

    assert [right for right, is_allowed in allowed.items() if is_allowed] == may.split()


def test_a_token_of_one_run_has_no_server_rights() -> None:
    assert not rules.may_read(machine("read", run="alpha"))
    assert not rules.may_administer(machine("admin", run="alpha"))
    assert rules.may_read(machine("read"))


@pytest.mark.parametrize(
    ("scopes", "owner_role", "role", "live", "suspended"),
    [
        ({"trainer", "read"}, Role.ADMIN, Role.ANONYMOUS, {"trainer", "read"}, set()),
        ({"trainer", "read"}, Role.OPERATOR, Role.ANONYMOUS, {"read"}, {"trainer"}),
        ({"admin"}, Role.ADMIN, Role.ANONYMOUS, {"admin"}, set()),
        ({"admin"}, Role.OPERATOR, Role.OPERATOR, set(), {"admin"}),
        ({"user"}, Role.VIEWER, Role.VIEWER, {"user"}, set()),
        ({"admin", "read"}, Role.ANONYMOUS, Role.ANONYMOUS, set(), {"admin", "read"}),
        ({"worker"}, None, Role.ANONYMOUS, {"worker"}, set()),
        ({"user"}, None, Role.ANONYMOUS, set(), set()),
    ],
)
def test_a_token_has_the_scopes_that_its_owner_may_grant(
    scopes: set[str], owner_role: Role | None, role: Role, live: set[str], suspended: set[str]
) -> None:
    caller = rules.token_caller(identity="token:1", scopes=scopes, owner_role=owner_role, run=None)

    assert (caller.role, caller.scopes, caller.suspended) == (role, live, suspended)


@pytest.mark.parametrize(
    ("rule", "caller", "run", "words"),
    [
        (rules.OPERATE, VIEWER, "alpha", "needs the role operator; yours is viewer"),
        (rules.READ, machine("env", run="beta"), "alpha", "bound to run beta; the request is"),
        (rules.READ, machine("env", run="beta"), None, "is about all runs"),
        (rules.act_as("trainer"), machine("env"), "alpha", "scope trainer, or the role admin"),
        (rules.act_as("env", "worker"), machine("read"), "alpha", "env or worker, or the role"),
        (rules.ADMINISTER, machine("env", "read"), None, "scope admin, or the role admin"),
    ],
)
def test_a_refusal_names_required_and_granted_scopes(
    rule: rules.Rule, caller: Caller, run: str | None, words: str
) -> None:
    assert not rule.allows(caller, run=run)
    assert words in rule.refusal(caller, run=run)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("is_own_run", [False, True])
def test_only_administrators_grant_machine_scopes_for_runs_of_others(
    role: Role, is_own_run: bool
) -> None:
    granted = rules.grantable(rules.SCOPES, role=role, is_own_run=is_own_run)

    by_role = {
        Role.ANONYMOUS: {"user"},
        Role.VIEWER: {"user", "read"},
        Role.OPERATOR: {"user", "read"} | (rules.MACHINE_SCOPES if is_own_run else set()),
        Role.ADMIN: set(rules.SCOPES),
    }
    assert granted == by_role[role]


def test_a_refusal_names_suspended_scopes() -> None:
    caller = rules.token_caller(
        identity="token:1", scopes={"trainer"}, owner_role=Role.OPERATOR, run=None
    )

    assert rules.act_as("trainer").refusal(caller) == (
        "This needs a token with the scope trainer, or the role admin; this token has no scope in "
        "effect (trainer suspended: the role of its owner does not allow this)."
    )


def test_a_caller_without_session_and_scope_is_unknown() -> None:
    assert not ANONYMOUS.is_known
    assert machine("metrics").is_known


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer rd_1", "rd_1"),
        ("bearer  rd_1 ", "rd_1"),
        ("Basic cnVuOnJkXzE=", "rd_1"),
        ("Digest x", None),
        ("", None),
    ],
)
def test_a_token_is_found_as_bearer_or_as_basic_password(header: str, token: str | None) -> None:
    assert token_in(header) == token


@pytest.mark.parametrize("header", ["Basic %%%", "Basic cnVu", "Basic /w==", "Basic \xff==="])
def test_malformed_basic_credentials_are_refused(header: str) -> None:
    with pytest.raises(MalformedCredentials):
        token_in(header)
