"""Reduce marks to a label and a note: pins and sets of groups are deleted.

Events of the runs keep who pinned which groups and what each set contained.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("buffer", "0004_gradients")]

    operations = [
        migrations.DeleteModel(name="SetMember"),
        migrations.DeleteModel(name="GroupSet"),
        migrations.RemoveConstraint(model_name="groupmark", name="mark_says_something"),
        migrations.RunSQL(
            "DELETE FROM buffer_groupmark WHERE label IS NULL AND note = ''",
            migrations.RunSQL.noop,
        ),
        migrations.RemoveIndex(model_name="groupmark", name="mark_pinned"),
        migrations.RemoveField(model_name="groupmark", name="is_pinned"),
        migrations.AddConstraint(
            model_name="groupmark",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("label__isnull", False),
                    models.Q(("note", ""), _negated=True),
                    _connector="OR",
                ),
                name="mark_says_something",
            ),
        ),
    ]
