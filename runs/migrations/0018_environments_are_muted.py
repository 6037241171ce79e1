"""A person may mute an environment: what it pushes is counted and not trained on."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0017_the_deck_is_measured")]

    operations = [
        migrations.AddField(
            model_name="environment",
            name="muted",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="What it pushes is counted and not trained on.",
            ),
        ),
    ]
