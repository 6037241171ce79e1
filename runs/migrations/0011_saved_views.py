from django.conf import settings
from django.db import migrations, models


def views_of_layouts(apps, schema_editor):
    """Turn layouts of metrics into views with the names of search parameters."""
    for row in apps.get_model("runs", "SavedObject").objects.filter(kind="layout").iterator():
        row.kind, row.body = "view", _view(row.body)
        row.save(update_fields=["kind", "body"])


def _view(layout):
    texts = [text if text.startswith("=") else f"/{text}/" for text in layout.get("panels") or []]
    axis = layout.get("x")
    view = {
        "q": layout.get("search"),
        "under": layout.get("under"),
        "x": None if axis == "step" else axis,
        "smooth": layout.get("smooth"),
        "charts": [*(layout.get("pinned") or []), *texts][:24],
        "looks": {name: "log" for name in (layout.get("logarithmic") or [])[:50]},
    }
    return {name: value for name, value in view.items() if value}


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0010_alert_snoozes'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='savedobject',
            name='saved_object_has_one_scope',
        ),
        migrations.RemoveConstraint(
            model_name='savedobject',
            name='layout_name_is_unique_for_author',
        ),
        migrations.RemoveConstraint(
            model_name='savedobject',
            name='layout_name_is_unique_in_run',
        ),
        migrations.RemoveConstraint(
            model_name='savedobject',
            name='layout_name_is_unique_for_tag',
        ),
        migrations.RemoveConstraint(
            model_name='savedobject',
            name='saved_object_kind_is_known',
        ),
        migrations.RunPython(views_of_layouts, migrations.RunPython.noop),
        # Pending checks of foreign keys would refuse the next changes of the table.
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE", migrations.RunSQL.noop),
        migrations.AlterField(
            model_name='savedobject',
            name='body',
            field=models.JSONField(help_text='A complete RunConfig or a View.'),
        ),
        migrations.AlterField(
            model_name='savedobject',
            name='kind',
            field=models.CharField(choices=[('preset', 'preset'), ('view', 'view')], max_length=12),
        ),
        migrations.AddConstraint(
            model_name='savedobject',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ('preset', 'view'))), name='saved_object_kind_is_known'),
        ),
        migrations.AddConstraint(
            model_name='savedobject',
            constraint=models.CheckConstraint(condition=models.Q(('run', None), models.Q(('kind', 'view'), ('tag', '')), _connector='OR'), name='saved_object_has_one_scope'),
        ),
        migrations.AddConstraint(
            model_name='savedobject',
            constraint=models.UniqueConstraint(condition=models.Q(('deleted_at', None), ('kind', 'view'), ('run', None), ('tag', '')), fields=('author', 'name'), name='view_name_is_unique_for_author'),
        ),
        migrations.AddConstraint(
            model_name='savedobject',
            constraint=models.UniqueConstraint(condition=models.Q(('deleted_at', None), ('kind', 'view'), ('run__isnull', False)), fields=('run', 'name'), name='view_name_is_unique_in_run'),
        ),
        migrations.AddConstraint(
            model_name='savedobject',
            constraint=models.UniqueConstraint(condition=models.Q(('deleted_at', None), ('kind', 'view'), models.Q(('tag', ''), _negated=True)), fields=('tag', 'name'), name='view_name_is_unique_for_tag'),
        ),
    ]
