"""The admin of data: what came in, where it is, and what people decided about it."""

from buffer.admin import batches as batches
from buffer.admin import items as items
from buffer.admin import marks as marks
from buffer.admin import notes as notes
