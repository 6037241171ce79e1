"""Replace the labels 1 to 9 of groups and their names by tags.

A label becomes the tag of its name or, without one, `label-3`. Notes stay.
"""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
from django.db import migrations, models

_TAGS = """
    UPDATE buffer_groupmark m SET tags = ARRAY[COALESCE(
        (SELECT NULLIF(trim(replace(n.name, '"', '''')), '') FROM buffer_labelname n
         WHERE n.run_id = m.run_id AND n.label = m.label), 'label-' || m.label)]
    WHERE m.label IS NOT NULL"""


class Migration(migrations.Migration):
    dependencies = [("buffer", "0007_tokenizers")]

    operations = [
        migrations.AddField(
            model_name="groupmark",
            name="tags",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=64), blank=True, default=list, size=None
            ),
        ),
        migrations.RunSQL(_TAGS, migrations.RunSQL.noop),
        migrations.RemoveConstraint(model_name="groupmark", name="mark_label_is_known"),
        migrations.RemoveConstraint(model_name="groupmark", name="mark_says_something"),
        migrations.RemoveIndex(model_name="groupmark", name="mark_by_label"),
        migrations.RemoveField(model_name="groupmark", name="label"),
        migrations.AddIndex(
            model_name="groupmark",
            index=django.contrib.postgres.indexes.GinIndex(fields=["tags"], name="mark_by_tag"),
        ),
        migrations.AddConstraint(
            model_name="groupmark",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("tags", []), _negated=True),
                    models.Q(("note", ""), _negated=True),
                    _connector="OR",
                ),
                name="mark_is_not_blank",
            ),
        ),
        migrations.DeleteModel(name="LabelName"),
    ]
