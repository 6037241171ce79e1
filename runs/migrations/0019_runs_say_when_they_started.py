"""A run says since when it goes: since it was started the last time."""

from django.db import migrations, models

FROM_EVENTS = """
    UPDATE runs_run r SET started_at = e.at FROM (
        SELECT run_id, max(at) AS at FROM runs_runevent
        WHERE kind = 'status' AND details->>'verb' = 'start' GROUP BY run_id
    ) e WHERE e.run_id = r.id"""
# Those that an Atropos trainer began wait for it from the moment when they are made.
FROM_CREATION = """
    UPDATE runs_run SET started_at = created_at
    WHERE started_at IS NULL AND kind = 'outside' AND status <> 'draft'"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0018_environments_are_muted")]

    operations = [
        migrations.AddField(
            "run",
            "started_at",
            models.DateTimeField(null=True, blank=True, help_text="The last time."),
        ),
        migrations.RunSQL(FROM_EVENTS, migrations.RunSQL.noop),
        migrations.RunSQL(FROM_CREATION, migrations.RunSQL.noop),
    ]
