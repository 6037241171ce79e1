import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('rollouts', '0013_tokens_are_tallied'),
        ('runs', '0009_runs_are_found_by_words'),
    ]

    operations = [
        migrations.CreateModel(
            name='MeasureCursor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('measured_at', models.DateTimeField(blank=True, null=True)),
                ('was_quiet', models.BooleanField(default=True, help_text='Nothing had happened; none is taken before something does.')),
                ('accepted', models.BigIntegerField(default=0, help_text='Groups or fragments.')),
                ('queued', models.BigIntegerField(default=0, help_text='Sequences or fragments.')),
                ('without_variance', models.BigIntegerField(default=0, help_text='Groups that were dropped as they came, for zero variance.')),
                ('served_steps', models.BigIntegerField(default=0)),
                ('env_steps', models.BigIntegerField(default=0)),
                ('amount', models.BigIntegerField(default=0, help_text='Tokens handed out, or env steps made.')),
                ('batch', models.BigIntegerField(default=0, help_text='Its ordinal.')),
                ('episode_window', models.BigIntegerField(default=0)),
                ('group', models.BigIntegerField(default=0)),
                ('group_written_in', models.BigIntegerField(default=0, help_text='Number of its transaction.')),
                ('digest', models.BigIntegerField(default=0, help_text='Of this group.')),
                ('digest_written_in', models.BigIntegerField(default=0)),
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='measure_cursor', to='runs.run')),
            ],
        ),
    ]
