"""Remember which workers people keep out, their last words, and whose stacks were asked for."""

from django.db import migrations, models


def _short(**more: object) -> models.CharField:
    return models.CharField(blank=True, default="", db_default="", **more)


class Migration(migrations.Migration):
    dependencies = [("rollouts", "0018_lessons_are_steered")]

    operations = [
        migrations.AddField(
            "fleetworker",
            "last_log",
            models.TextField(
                blank=True, default="", db_default="", help_text="Newest line of its log, cut."
            ),
        ),
        migrations.AddField(
            "fleetworker",
            "is_cordoned",
            models.BooleanField(
                default=False, db_default=False, help_text="Its manager keeps it out."
            ),
        ),
        migrations.AddField(
            "fleetworker",
            "cordoned_at",
            models.DateTimeField(
                null=True, blank=True, help_text="Since when somebody wants it kept out."
            ),
        ),
        migrations.AddField("fleetworker", "cordoned_by", _short(max_length=200)),
        migrations.AddField(
            "fleetworker",
            "cordon_reason",
            models.TextField(blank=True, default="", db_default=""),
        ),
        migrations.AddField(
            "logrequest",
            "kind",
            models.CharField(
                max_length=8,
                choices=[("log", "log"), ("stacks", "stacks")],
                default="log",
                db_default="log",
            ),
        ),
        migrations.AddField(
            "logrequest",
            "incarnation",
            _short(max_length=120, help_text="Of the worker asked."),
        ),
        migrations.RemoveConstraint("logrequest", "log_request_is_one"),
        migrations.AddConstraint(
            "logrequest",
            models.UniqueConstraint(
                fields=["run", "kind", "worker", "slot"],
                nulls_distinct=False,
                name="log_request_is_one",
            ),
        ),
        migrations.AddConstraint(
            "logrequest",
            models.CheckConstraint(
                condition=models.Q(kind__in=("log", "stacks")), name="log_request_kind_is_known"
            ),
        ),
    ]
