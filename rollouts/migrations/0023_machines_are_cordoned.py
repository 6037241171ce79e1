"""Remember which machines shall be empty, and on which node workers and managers are."""

import django.contrib.postgres.fields
from django.db import migrations, models


def _node(text: str) -> models.CharField:
    return models.CharField(max_length=64, blank=True, default="", db_default="", help_text=text)


class Migration(migrations.Migration):
    dependencies = [("rollouts", "0022_comparisons_and_verdicts_are_kept")]

    operations = [
        migrations.CreateModel(
            name="MachineCordon",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("node", models.CharField(help_text="As Ray calls it.", max_length=64, unique=True)),
                ("host", models.CharField(blank=True, max_length=200)),
                (
                    "siblings",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=64),
                        blank=True,
                        default=list,
                        help_text="Other nodes of its host when it was cordoned.",
                        size=None,
                    ),
                ),
                ("reason", models.TextField()),
                ("cordoned_at", models.DateTimeField()),
                ("cordoned_by", models.CharField(max_length=200)),
            ],
        ),
        migrations.AddField("fleet", "node_id", _node("Ray's id of the node where its manager is.")),
        migrations.AddField("fleetworker", "node_id", _node("As Ray calls the node.")),
    ]
