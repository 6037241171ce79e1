from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("buffer", "0003_claims_of_pushes"),
    ]

    operations = [
        migrations.AddField(
            model_name="groupdigest",
            name="has_gradient",
            field=models.BooleanField(
                blank=True,
                help_text="Whether a trained token has an advantage other than 0; null: unknown.",
                null=True,
            ),
        ),
    ]
