from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("buffer", "0005_labels_and_one_note"),
    ]

    operations = [
        migrations.AddField(
            model_name="groupdigest",
            name="answer",
            field=models.CharField(
                blank=True,
                default="",
                help_text="Of its first sequence.",
                max_length=240,
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="groupdigest",
            name="is_cut",
            field=models.BooleanField(
                blank=True,
                help_text="Whether some of its text is not searchable; null: unknown.",
                null=True,
            ),
        ),
        migrations.AddIndex(
            model_name="groupdigest",
            index=models.Index(
                condition=models.Q(("is_cut", True), ("is_cut__isnull", True), _connector="OR"),
                fields=["run"],
                name="digest_partly_searchable",
            ),
        ),
        migrations.AlterField(
            model_name="groupdigest",
            name="excerpt",
            field=models.CharField(
                blank=True, help_text="Beginning of its prompt.", max_length=240
            ),
        ),
    ]
