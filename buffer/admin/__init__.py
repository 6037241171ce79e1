"""Admin pages of items, batches, marks, ledgers, archives, followers and captures."""

from buffer.admin import batches as batches
from buffer.admin import items as items
from buffer.admin import marks as marks
from buffer.admin import notes as notes
