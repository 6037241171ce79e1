"""Remember the last report of a fleet when its manager is replaced."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("rollouts", "0016_workers_are_replaced")]

    operations = [
        migrations.AddField(
            model_name="fleet",
            name="heard_at",
            field=models.DateTimeField(
                blank=True, help_text="Last report of any of its managers.", null=True
            ),
        ),
        migrations.RunSQL(
            "UPDATE rollouts_fleet SET heard_at = observed_at", migrations.RunSQL.noop
        ),
        migrations.RenameField(model_name="fleetworker", old_name="verdict", new_name="time_use"),
    ]
