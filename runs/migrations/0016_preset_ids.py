from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0015_project_ids'),
    ]

    operations = [
        # The default is computed for each existing row.
        migrations.AddField(
            model_name='savedobject',
            name='uid',
            field=models.CharField(
                db_default=models.Func(
                    output_field=models.CharField(),
                    template="substr(replace(gen_random_uuid()::text, '-', ''), 1, 24)",
                ),
                editable=False,
                help_text='Immutable id without the name of its kind.',
                max_length=24,
                unique=True,
            ),
        ),
    ]
