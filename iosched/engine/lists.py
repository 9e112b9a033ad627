"""Intrusive doubly linked lists: one pool of nodes and of list heads serves every order the kernel keeps.

A request owns two nodes (place by sector or in a plain list, and place by arrival), a CFQ queue one, a CFQ group one, a
task one. Sorted insertion walks from the tail: I/O is mostly ascending, lists are short (a
scheduler holds at most a few hundred requests), and a walk of ten nodes costs less than rebalancing a tree.
"""

from .codes import NONE
from .jit import jit


@jit
def push_back(s, lst, n):
    """Append node `n` to list `lst`."""
    head = s.lists[lst]
    node = s.nodes[n]
    node.prev = head.tail
    node.next = NONE
    node.list = lst
    if head.tail == NONE:
        head.head = n
    else:
        s.nodes[head.tail].next = n
    head.tail = n
    head.count += 1


@jit
def push_front(s, lst, n):
    """Put node `n` before all others of list `lst`."""
    head = s.lists[lst]
    node = s.nodes[n]
    node.next = head.head
    node.prev = NONE
    node.list = lst
    if head.head == NONE:
        head.tail = n
    else:
        s.nodes[head.head].prev = n
    head.head = n
    head.count += 1


@jit
def insert_sorted(s, lst, n, key):
    """Insert node `n` behind every node whose key is not larger (equal keys keep their order of arrival)."""
    head = s.lists[lst]
    node = s.nodes[n]
    node.key = key
    after = head.tail
    while after != NONE and s.nodes[after].key > key:
        after = s.nodes[after].prev
    if after == head.tail:
        push_back(s, lst, n)
        return
    if after == NONE:
        push_front(s, lst, n)
        return
    before = s.nodes[after].next
    node.prev = after
    node.next = before
    node.list = lst
    s.nodes[after].next = n
    s.nodes[before].prev = n
    head.count += 1


@jit
def remove(s, n):
    """Take node `n` out of the list it is in; nothing happens when it is in none."""
    node = s.nodes[n]
    if node.list == NONE:
        return
    head = s.lists[node.list]
    if node.prev == NONE:
        head.head = node.next
    else:
        s.nodes[node.prev].next = node.next
    if node.next == NONE:
        head.tail = node.prev
    else:
        s.nodes[node.next].prev = node.prev
    head.count -= 1
    node.list = NONE
    node.prev = NONE
    node.next = NONE


@jit
def successor_of(s, lst, key):
    """First node of a sorted list whose key is `key` or larger, else NONE."""
    n = s.lists[lst].tail
    found = NONE
    while n != NONE and s.nodes[n].key >= key:
        found = n
        n = s.nodes[n].prev
    return found


@jit
def pop_front(s, lst):
    """Remove and return the first node, or NONE."""
    n = s.lists[lst].head
    if n != NONE:
        remove(s, n)
    return n
