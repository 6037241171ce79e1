"""Remember how large the deck was, and what an operator tells everybody."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0016_presets_and_notes_are_kept")]

    operations = [
        migrations.CreateModel(
            "DeckSample",
            [
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField(unique=True)),
                ("database_bytes", models.PositiveBigIntegerField(null=True, blank=True)),
                (
                    "wal_bytes",
                    models.PositiveBigIntegerField(
                        null=True,
                        blank=True,
                        help_text="Written to the write-ahead log since the beginning.",
                    ),
                ),
                (
                    "disk_free_bytes",
                    models.PositiveBigIntegerField(
                        null=True,
                        blank=True,
                        help_text="Where payloads are kept; null for a bucket.",
                    ),
                ),
                ("disk_total_bytes", models.PositiveBigIntegerField(null=True, blank=True)),
            ],
        ),
        migrations.CreateModel(
            "DeckNotice",
            [
                (
                    "id",
                    models.PositiveSmallIntegerField(
                        primary_key=True, default=1, serialize=False
                    ),
                ),
                ("text", models.CharField(max_length=300)),
                ("reason", models.TextField(blank=True)),
                (
                    "until",
                    models.DateTimeField(
                        null=True, blank=True, help_text="Null: until it is taken down."
                    ),
                ),
                ("set_by", models.CharField(max_length=200)),
                ("set_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(id=1), name="deck_notice_is_one"
                    )
                ]
            },
        ),
    ]
