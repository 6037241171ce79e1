"""Presets that people save, and what they note about runs."""

import django.db.models.deletion
import runs.core.preset_rules
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0015_people_make_alert_rules'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='RunNote',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('revision', models.PositiveIntegerField(help_text="Counts the edits of a run's notes from 1.")),
                ('text', models.TextField(blank=True, help_text='Markdown; empty where they were taken away.')),
                ('author', models.CharField(help_text='A user or a token.', max_length=200)),
                ('at', models.DateTimeField()),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='notes', to='runs.run')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('run', 'revision'), name='run_note_revision_is_one'), models.CheckConstraint(condition=models.Q(('revision__gte', 1)), name='run_note_revision_counts_from_one')],
            },
        ),
        migrations.CreateModel(
            name='SavedPreset',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.SlugField(help_text='As the address of the launch form says it.', max_length=80)),
                ('description', models.CharField(blank=True, max_length=300)),
                ('access', models.CharField(choices=[('private', 'private'), ('shared', 'shared'), ('open', 'open')], default=runs.core.preset_rules.Access['PRIVATE'], max_length=8)),
                ('config', models.JSONField(help_text='A whole RunConfig, every default written out.')),
                ('revision', models.PositiveIntegerField(default=1, help_text='Counts the changes.')),
                ('created_at', models.DateTimeField()),
                ('changed_at', models.DateTimeField()),
                ('changed_by', models.CharField(help_text='Who saved it last.', max_length=200)),
                ('deleted_at', models.DateTimeField(blank=True, null=True)),
                ('owner', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('deleted_at', None)), fields=('name',), name='preset_name_is_taken_once'), models.CheckConstraint(condition=models.Q(('access__in', ['private', 'shared', 'open'])), name='preset_access_is_known')],
            },
        ),
    ]
