"""Models of payload segments and of payloads in the database."""

from django.db import models
from django.db.models import Q

from buffer.items.models import choices
from buffer.items.rules.states import ItemKind


class Segment(models.Model):
    """A period whose payloads are dropped together: a partition and a folder of objects."""

    number = models.PositiveIntegerField(primary_key=True)
    opened_at = models.DateTimeField()
    sealed_at = models.DateTimeField(null=True, blank=True, help_text="Nothing new since then.")
    dropped_at = models.DateTimeField(null=True, blank=True, help_text="Its bytes are expired.")
    cleared_at = models.DateTimeField(null=True, blank=True, help_text="Its bytes are removed.")
    # Refreshed every few seconds while the segment is open.
    items = models.PositiveBigIntegerField(default=0)
    size_bytes = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                models.Value(1), condition=Q(sealed_at=None), name="segment_open_is_one"
            ),
            models.CheckConstraint(
                condition=Q(dropped_at=None) | Q(sealed_at__isnull=False),
                name="segment_dropped_was_sealed",
            ),
        ]

    def __str__(self) -> str:
        return f"segment {self.number}"


class Payload(models.Model):
    """The bytes of an item from a small push, in a table that scheduling does not read.

    The migration partitions it by segment, so that retention drops tables and never deletes
    rows. `content` has STORAGE EXTERNAL, because compression costs ten times as much as writing.
    """

    pk = models.CompositePrimaryKey("segment", "kind", "item_id")
    segment = models.PositiveIntegerField()
    kind = models.CharField(max_length=9, choices=choices(ItemKind))
    item_id = models.PositiveBigIntegerField()
    content = models.BinaryField()

    def __str__(self) -> str:
        return f"payload of item {self.item_id} of the {self.kind}"
