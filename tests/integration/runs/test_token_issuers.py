"""The upgrade names the issuer of each token that has no owner."""

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from runs import services
from runs.models import ApiToken, TokenIssuer
from tests.factories import NOON, make_run, make_token, make_user

MIGRATION = import_module("runs.migrations.0025_tokens_know_their_issuer")


def before_the_upgrade(*scopes: str, **fields: Any) -> ApiToken:
    """Return a token as it was stored before tokens had issuers."""
    return make_token(*scopes, **{"issuer": TokenIssuer.PERSON, **fields})[0]


@pytest.mark.django_db
def test_tokens_of_deleted_people_are_revoked_and_the_platforms_own_are_kept() -> None:
    (constraint,) = ApiToken._meta.constraints
    with connection.schema_editor() as editor:
        editor.remove_constraint(ApiToken, constraint)
    run, ada = make_run(), make_user(username="ada", role="admin")
    bootstrap = services.adopt_bootstrap_token(text="sixteen letters!", now=NOON)
    ApiToken.objects.update(issuer=TokenIssuer.PERSON)
    manager = before_the_upgrade("worker", run=run, name=f"fleet {run.name}")
    child = before_the_upgrade("env", name="with the bootstrap token")
    owned = before_the_upgrade("env", created_by=ada)
    orphan = before_the_upgrade("admin", created_by=ada)
    ApiToken.objects.filter(pk=orphan.pk).update(created_by=None)

    MIGRATION.name_issuers(apps, None)

    connection.check_constraints()
    with connection.schema_editor() as editor:
        editor.add_constraint(ApiToken, constraint)
    found = {token.pk: (token.issuer, bool(token.revoked_at)) for token in ApiToken.objects.all()}
    assert found == {
        bootstrap.pk: ("platform", False),
        manager.pk: ("manager", False),
        child.pk: ("platform", False),
        owned.pk: ("person", False),
        orphan.pk: ("person", True),
    }
