"""The deck remembers which of its processes live."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0009_runs_are_found_by_words")]

    operations = [
        migrations.CreateModel(
            name="DeckPart",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("web", "web"),
                            ("worker", "worker"),
                            ("clock", "clock"),
                            ("ray", "ray"),
                        ],
                        max_length=8,
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        help_text="One of its kind: host and process id.", max_length=255
                    ),
                ),
                ("host", models.CharField(blank=True, max_length=255)),
                ("pid", models.PositiveBigIntegerField(blank=True, null=True)),
                ("started_at", models.DateTimeField()),
                (
                    "proven_at",
                    models.DateTimeField(help_text="When it last said, or showed, that it lives."),
                ),
                ("version", models.CharField(blank=True, max_length=40)),
                ("details", models.JSONField(blank=True, default=dict)),
                (
                    "problem",
                    models.TextField(
                        blank=True, help_text="What the last look at it found wrong."
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("kind", "name"), name="deck_part_is_one"),
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ("web", "worker", "clock", "ray"))),
                        name="deck_part_kind_is_known",
                    ),
                ],
            },
        ),
    ]
