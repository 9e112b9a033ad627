"""What can be said of a request by looking at it alone."""

from .codes import F_FUA, F_PREFLUSH, F_SYNC, READ
from .jit import jit


@jit
def is_sync(op, flags):
    """Reads, and anything flagged SYNC, FUA or PREFLUSH (spec block-layer section 0)."""
    return op == READ or (flags & (F_SYNC | F_FUA | F_PREFLUSH)) != 0
