from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0013_deletions'),
    ]

    operations = [
        # The default is computed for each existing row.
        migrations.AddField(
            model_name='run',
            name='uid',
            field=models.CharField(
                db_default=models.Func(
                    output_field=models.CharField(),
                    template="'run_' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 24)",
                ),
                editable=False,
                help_text='Immutable id.',
                max_length=28,
                unique=True,
            ),
        ),
        migrations.AddField(
            model_name='rundeletion',
            name='run_uid',
            field=models.CharField(default='', help_text='Immutable id of the run.', max_length=28, unique=True),
            preserve_default=False,
        ),
    ]
