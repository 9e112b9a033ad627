"""How many pages a window of read-ahead has (spec block-layer section 10)."""

from .jit import jit


@jit
def first_size(wanted, most):
    """Of the first window, for `wanted` pages: four times as many, or twice, up to the limit."""
    size = 1
    while size < wanted:
        size *= 2
    if size <= most // 32:
        return 4 * size
    return 2 * size if size <= most // 4 else most


@jit
def next_size(size, most):
    """Of the window behind one of `size` pages."""
    if size < most // 16:
        return 4 * size
    return 2 * size if size <= most // 2 else most
