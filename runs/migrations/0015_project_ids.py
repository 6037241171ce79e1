from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0014_run_ids'),
    ]

    operations = [
        # The default is computed for each existing row.
        migrations.AddField(
            model_name='project',
            name='uid',
            field=models.CharField(
                db_default=models.Func(
                    output_field=models.CharField(),
                    template="'project_' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 24)",
                ),
                editable=False,
                help_text='Immutable id.',
                max_length=32,
                unique=True,
            ),
        ),
    ]
