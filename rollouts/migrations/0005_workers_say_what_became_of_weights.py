from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('rollouts', '0004_logs_are_asked_for'),
    ]

    operations = [
        migrations.AddField(
            model_name='fleetworker',
            name='transfers',
            field=models.JSONField(blank=True, default=dict, help_text='What became of the weights that it was offered.'),
        ),
    ]
