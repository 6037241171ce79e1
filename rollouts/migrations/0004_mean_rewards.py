from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("rollouts", "0003_worker_replicas"),
    ]

    operations = [
        migrations.AddField(
            model_name="measurecursor",
            name="reward_mean",
            field=models.FloatField(
                blank=True,
                help_text="Mean score of the groups, or return, last measured.",
                null=True,
            ),
        ),
    ]
