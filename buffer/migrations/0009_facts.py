"""Add facts, advantages and correctness to the digests of groups.

Digests of outside runs are renewed in the background, newest first.
"""

import django.contrib.postgres.fields
from django.db import migrations, models

_RENEW = """
    UPDATE buffer_digestcursor c SET renew_before = 1 + (
        SELECT max(g.id) FROM buffer_trajectorygroup g WHERE g.run_id = c.run_id)
    FROM runs_run r WHERE r.id = c.run_id AND r.kind <> 'fleet'"""


class Migration(migrations.Migration):
    dependencies = [("buffer", "0008_tags")]

    operations = [
        migrations.AddField(
            model_name="groupdigest",
            name="facts",
            field=models.JSONField(default=dict, help_text="Metadata and overrides by key."),
        ),
        migrations.AddField(
            model_name="groupdigest",
            name="advantages",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.FloatField(null=True),
                default=list,
                help_text="Means of its first sequences.",
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="groupdigest",
            name="correct",
            field=models.PositiveIntegerField(
                blank=True, help_text="Correct sequences; null: unknown.", null=True
            ),
        ),
        migrations.RunSQL(_RENEW, migrations.RunSQL.noop),
    ]
