"""Remember which incarnation of a worker somebody wants replaced."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("rollouts", "0015_training_is_read_newest_first")]

    operations = [
        migrations.AddField(
            "fleetworker",
            "restart_of",
            models.CharField(
                max_length=120,
                blank=True,
                default="",
                db_default="",
                help_text="Incarnation that somebody wants replaced.",
            ),
        ),
        migrations.AddField(
            "fleetworker",
            "restart_reason",
            models.TextField(blank=True, default="", db_default=""),
        ),
    ]
