from typing import Any

from django.db import migrations, models
from django.db.models import Q
from django.utils import timezone

OF_MANAGER = Q(name__startswith="fleet ", scopes=["worker"], run__isnull=False)


def name_issuers(apps: Any, schema_editor: Any) -> None:
    """Name the issuers of tokens, and revoke tokens whose owner was deleted."""
    tokens = apps.get_model("runs", "ApiToken").objects.filter(created_by=None)
    events = apps.get_model("runs", "RunEvent").objects
    own = events.filter(kind="token_minted", actor="platform").values_list("details", flat=True)
    own_ids = {details.get("token") for details in own.iterator()}
    tokens.filter(Q(prefix="bootstrap") | Q(pk__in=own_ids)).update(issuer="platform")
    tokens.filter(OF_MANAGER, issuer="platform").update(issuer="manager")
    tokens.filter(issuer="person", revoked_at=None).update(revoked_at=timezone.now())


class Migration(migrations.Migration):
    """Tokens name the source of their rights; without an owner a person's token has none."""

    dependencies = [
        ("runs", "0024_login_counts"),
    ]

    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="issuer",
            field=models.CharField(
                choices=[
                    ("person", "a person, whose role limits it"),
                    ("platform", "the server: the bootstrap token, and what was created with it"),
                    ("manager", "the server, for a fleet manager"),
                ],
                default="person",
                max_length=8,
            ),
        ),
        migrations.AlterField(
            model_name="apitoken",
            name="scopes",
            field=models.JSONField(
                default=list, help_text="trainer, env, worker, read, user, metrics, admin."
            ),
        ),
        migrations.RunPython(name_issuers, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name="apitoken",
            constraint=models.CheckConstraint(
                condition=Q(revoked_at__isnull=False)
                | (Q(issuer="person") & Q(created_by__isnull=False))
                | (~Q(issuer="person") & Q(created_by__isnull=True)),
                name="token_has_an_owner",
            ),
        ),
    ]
