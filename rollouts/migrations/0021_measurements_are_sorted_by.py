"""What was measured last of a run is kept where lists of runs can sort by it."""

from django.db import migrations, models

FROM_SERIES = """
    UPDATE rollouts_measurecursor c SET {column} = (
        SELECT COALESCE(m.value, s.packed_value) FROM rollouts_metricseries s
        LEFT JOIN LATERAL (
            SELECT value FROM rollouts_metricsample
            WHERE series_id = s.id ORDER BY id DESC LIMIT 1
        ) m ON true
        WHERE s.run_id = c.run_id AND s.name = '{name}')"""


class Migration(migrations.Migration):
    dependencies = [("rollouts", "0020_people_write_upon_charts")]

    operations = [
        migrations.AddField(
            "measurecursor",
            "accepted_per_second",
            models.FloatField(
                null=True,
                blank=True,
                help_text="Groups or fragments; null before the second measurement.",
            ),
        ),
        migrations.AddField(
            "measurecursor",
            "staleness_p50",
            models.FloatField(
                null=True, blank=True, help_text="Of what was served last, in versions behind."
            ),
        ),
        migrations.RunSQL(
            FROM_SERIES.format(
                column="accepted_per_second", name="rolldeck/accepted_per_second"
            ),
            migrations.RunSQL.noop,
        ),
        migrations.RunSQL(
            FROM_SERIES.format(column="staleness_p50", name="rolldeck/staleness/p50"),
            migrations.RunSQL.noop,
        ),
    ]
