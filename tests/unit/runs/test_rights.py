import pytest

from runs.core import rights
from runs.core.credentials import MalformedCredentials, token_in
from runs.core.rights import Caller, Role

NOBODY = Caller(identity="address:192.0.2.1")
VIEWER = Caller(identity="user:vera", role=Role.VIEWER)
OPERATOR = Caller(identity="user:olga", role=Role.OPERATOR)
ADMIN = Caller(identity="user:ada", role=Role.ADMIN)


def machine(*scopes: str, run: str | None = None, role: Role = Role.NOBODY) -> Caller:
    return Caller(identity="token:1", scopes=frozenset(scopes), run=run, role=role)


@pytest.mark.parametrize(
    ("caller", "may"),
    [
        (NOBODY, ""),
        (VIEWER, "read"),
        (OPERATOR, "read operate"),
        (ADMIN, "read operate administer act"),
        (machine("trainer"), "read act"),
        (machine("trainer", run="alpha"), "read act"),
        (machine("trainer", run="beta"), ""),
        (machine("env"), "read"),
        (machine("worker"), "read"),
        (machine("metrics"), ""),
        (machine("admin"), "read operate administer act"),
        (machine("admin", run="beta"), ""),
        (machine("user", role=Role.OPERATOR), "read operate"),
        (machine("user", role=Role.VIEWER), "read"),
        (machine("user", role=Role.ADMIN, run="beta"), ""),
    ],
    ids=str,
)
def test_a_caller_may_do_to_a_run_what_the_table_says(caller: Caller, may: str) -> None:
    allowed = {
        "read": rights.may_read(caller, run="alpha"),
        "operate": rights.may_operate(caller, run="alpha"),
        "administer": rights.may_administer(caller, run="alpha"),
        "act": rights.may_act_as(caller, "trainer", run="alpha"),
    }

    assert [right for right, is_allowed in allowed.items() if is_allowed] == may.split()


def test_a_token_of_one_run_reaches_nothing_that_belongs_to_all() -> None:
    assert not rights.may_read(machine("trainer", run="alpha"))
    assert not rights.may_administer(machine("admin", run="alpha"))
    assert rights.may_read(machine("trainer"))


def test_a_caller_without_session_and_scope_is_unknown() -> None:
    assert not NOBODY.is_known
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
