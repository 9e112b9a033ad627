"""What writing to a file does to its inode and to the file system's metadata (spec block-layer section 9)."""

from . import journal
from .codes import META_BLOCK_BITMAP, META_DIRECTORY, META_GROUP_DESC, META_INODE_BITMAP, PAGE, PAGE_SECTORS
from .jit import jit


@jit
def dirty_inode(s, fi):
    """A write changed the file's inode; the first one of a new file also brings what its creation dirtied."""
    f = s.files[fi]
    if f.metadata != 0:
        bits = 0
        if f.created == 0:
            f.created = 1
            bits |= META_DIRECTORY | META_INODE_BITMAP | META_GROUP_DESC
        journal.dirty(s, fi, bits)
        f.changed = 1


@jit
def allocate_blocks(s, fi, end):
    """Delayed allocation: a page that is written for the first time needs the block bitmap and its group descriptor in
    the transaction (every eighth 512-byte append)."""
    f = s.files[fi]
    if end > f.mapped_to:
        f.mapped_to = (end + PAGE - 1) // PAGE * PAGE
        if f.metadata != 0:
            journal.dirty(s, fi, META_BLOCK_BITMAP | META_GROUP_DESC)


@jit
def reserve_blocks(j, f, pages):
    """Where new pages go: ext4 gives a file blocks `window` pages at a time, behind whatever it gave last, and keeps
    for the file's next pages what it does not fill; a window that nothing follows yet grows. Files that are written in
    turns so lie in pieces of whole windows. Returns how many of `pages` lie behind each other from `f.place` on."""
    if f.room == 0:
        f.place = j.allocated
    if f.room < pages and f.place + f.room * PAGE_SECTORS == j.allocated:
        more = max(pages - f.room, j.window)
        f.room += more
        j.allocated += more * PAGE_SECTORS
    return min(pages, f.room)
