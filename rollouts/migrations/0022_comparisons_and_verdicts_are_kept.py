"""People keep comparisons of runs, and administrators deny environments."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('rollouts', '0021_measurements_are_sorted_by'),
    ]

    operations = [
        migrations.CreateModel(
            name='Comparison',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=120)),
                ('remarks', models.TextField(blank=True, help_text="What it shows, in its author's words.")),
                ('look', models.JSONField(help_text='A ComparisonLook.')),
                ('created_at', models.DateTimeField()),
                ('created_by', models.CharField(max_length=200)),
            ],
            options={
                'ordering': ('-id',),
            },
        ),
        migrations.CreateModel(
            name='DeniedEnvironment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('spec', models.CharField(max_length=220, unique=True)),
                ('reason', models.TextField()),
                ('denied_at', models.DateTimeField()),
                ('denied_by', models.CharField(max_length=200)),
            ],
        ),
    ]
