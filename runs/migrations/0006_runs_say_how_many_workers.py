from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0005_runs_ask_for_advantages'),
    ]

    operations = [
        migrations.AddField(
            model_name='run',
            name='num_workers',
            field=models.PositiveIntegerField(blank=True, help_text='Rollout workers wanted now; empty for as configured.', null=True),
        ),
    ]
