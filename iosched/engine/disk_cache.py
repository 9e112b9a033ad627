"""A disk's volatile write cache: what it holds that the medium does not, as sorted extents, and what goes out next.

A write is taken while there is room and acknowledged at the bus's rate; else it waits inside the disk until destaging
has made room. Reads go to the medium: what was just written is still in the page cache above.
"""

from .codes import NONE
from .jit import jit
from .lists import insert_sorted, remove


@jit
def node_of(s, extent):
    """The list node of an extent."""
    sim = s.sim[0]
    return sim.first_task_node + sim.n_tasks + extent


@jit
def extent_of(s, n):
    """The extent of a list node."""
    sim = s.sim[0]
    return n - sim.first_task_node - sim.n_tasks


@jit
def room_for(s, d, nr):
    """Can the cache take a write of `nr` sectors?"""
    k = s.disks[d]
    return k.held + nr <= k.cache_sectors and k.free_extent != NONE


@jit
def put(s, d, first, end):
    """Take a write. What it overwrites in the cache never reaches the medium; what it touches becomes one extent."""
    k = s.disks[d]
    n = s.lists[k.dirty].tail
    while n != NONE and s.nodes[n].key > first:
        n = s.nodes[n].prev
    if n != NONE and s.extents[extent_of(s, n)].end >= first:
        x = s.extents[extent_of(s, n)]
        new = max(end - x.end, 0)
        x.end = max(x.end, end)
    else:
        extent = k.free_extent
        x = s.extents[extent]
        k.free_extent = x.next
        x.end = end
        new = end - first
        n = node_of(s, extent)
        insert_sorted(s, k.dirty, n, first)
    following = s.nodes[n].next
    while following != NONE and s.nodes[following].key <= end:
        o = s.extents[extent_of(s, following)]
        new -= min(o.end, end) - s.nodes[following].key
        x.end = max(x.end, o.end)
        drop(s, d, following)
        following = s.nodes[n].next
    k.held += new
    k.taken += end - first
    k.overwritten += end - first - new


@jit
def drop(s, d, n):
    """The extent of node `n` is no more."""
    k = s.disks[d]
    remove(s, n)
    extent = extent_of(s, n)
    s.extents[extent].next = k.free_extent
    k.free_extent = extent


@jit
def next_extent(s, d):
    """Node of the extent that the arm meets next on its way inwards, from the outermost again after the last."""
    k = s.disks[d]
    n = s.lists[k.dirty].head
    while n != NONE and s.nodes[n].key < k.at_sector:
        n = s.nodes[n].next
    return s.lists[k.dirty].head if n == NONE else n


@jit
def take_piece(s, d, n):
    """Begin to destage the extent of node `n`: its first piece leaves the list, and is held until it is written."""
    k = s.disks[d]
    first = s.nodes[n].key
    end = s.extents[extent_of(s, n)].end
    k.piece = min(end - first, k.piece_sectors)
    if first + k.piece == end:
        drop(s, d, n)
    else:
        s.nodes[n].key = first + k.piece


@jit
def piece_written(s, d):
    """The piece is on the medium."""
    k = s.disks[d]
    k.held -= k.piece
    k.written += k.piece
    k.piece = 0
