"""Parser of the one-line filter language for runs.

    state:running,paused kind:language env:gsm8k step>100 tag:ablation name~cart created<7d

A filter consists of words. A run must match all words, and none that start with a minus. A word
without a qualifier matches a part of the name. Times are ages (`7d`, `36h`) or dates
(`2026-03-01`).
"""

from runs.core.run_filter.parsing import InvalidFilter, Term, parse
from runs.core.run_filter.qualifiers import QUALIFIERS, Form, Qualifier

__all__ = ["QUALIFIERS", "Form", "InvalidFilter", "Qualifier", "Term", "parse"]
