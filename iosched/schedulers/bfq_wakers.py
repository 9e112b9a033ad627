"""Wakers: the queue whose completed I/O lets another process go on, found by timing alone (spec bfq section 2).

jbd2's commit wakes dd, dd's write wakes jbd2: while BFQ waits for the one, the other's request is the one that must be
served. `WakerRules` holds every rule by itself; `bfq_versions.py` has the sets that kernels shipped.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..engine.codes import NONE, USEC
from ..engine.jit import jit
from ..engine.lists import push_front, remove
from ..knobs import check, knob, named
from .bfq_estimators import jiffies
from .bfq_injection import has_fitting_request
from .bfq_wf2q import woken_node

SELECTIONS = ("none", "own request", "waker's request")
ARRIVALS = ("queue empty", "queue idle", "process idle")


@named
@dataclass(frozen=True)
class WakerRules:
    """Who counts as a waker, and what is done with that (spec bfq 2.1); every field is one rule.

    The defaults are those of kernel 5.12. `arrival` says which requests are looked at: those to an empty queue, to one
    that has nothing in flight either (5.14), or of a process without another request (5.19). `selection` "own request"
    is the test of 5.3 to 5.11, which looks at the request that the empty queue does not have, so that wakers were never
    served.

    >>> WakerRules(detections=1).window_us
    4000
    """

    detect: bool = knob(True, "look for wakers at all")
    window_us: float = knob(4000, "longest time from the waker's completion to the arrival", "us", 0, 1e6,
                            slider=(1, 10_000, "log"))  # fmt: skip
    long_think_time: bool = knob(True, "look only for the waker of a queue with long think time")
    detections: int = knob(3, "times in a row the same queue must be seen", "times", 1, 1000, integer=True,
                           slider=(1, 8, "linear"))  # fmt: skip
    selection: str = knob("waker's request", "which request decides that the waker is served", choices=SELECTIONS)
    inject_woken: bool = knob(False, "serve a queue that this one wakes (5.13)")
    timeout_slices: int = knob(0, "detections must fall into so many slice_idle; 0: no limit (128 since 5.17)",
                               "slice_idle", 0, 10**6, integer=True, slider=(0, 256, "linear"))  # fmt: skip
    arrival: str = knob("queue empty", "which arrivals are looked at", choices=ARRIVALS)
    challenge: bool = knob(False, "the waker itself may reset the search for another (5.19)")
    ignore_shared: bool = knob(False, "a merged queue is nobody's waker (5.13)")
    direct_dispatch: bool = knob(False, "requests of waker and woken skip the queues while these two are alone (5.13)")
    replace_at_once: bool = knob(False, "the first sight of another queue drops the waker (before 5.12)")

    def __post_init__(self) -> None:
        check(self, "waker_rules.")

    def fill(self, c) -> None:
        """Write the rules into a device's row."""
        c.wk_detect = int(self.detect)
        c.wk_window = round(self.window_us * USEC)
        c.wk_long_think = int(self.long_think_time)
        c.wk_needed = self.detections
        c.wk_select = SELECTIONS.index(self.selection)
        c.wk_woken = int(self.inject_woken)
        c.wk_timeout = self.timeout_slices * c.slice_idle
        c.wk_arrival = ARRIVALS.index(self.arrival)
        c.wk_challenge = int(self.challenge)
        c.wk_unshared = int(self.ignore_shared)
        c.wk_direct = int(self.direct_dispatch)
        c.wk_replace = int(self.replace_at_once)


@jit
def set_waker(s, i, waker):
    """Queue `i` has this waker from now on (NONE: none), and is in its list of woken queues."""
    q = s.bfq_queues[i]
    remove(s, woken_node(s, i))
    q.waker = waker
    if waker != NONE:
        push_front(s, s.bfq_queues[waker].woken, woken_node(s, i))


@jit
def looks_for_waker(s, c, q, i):
    """Is this arrival one that may tell who the waker is?"""
    if c.wk_detect == 0 or c.last_completed == NONE or c.last_completed == i:
        return False
    if c.wk_arrival == 1 and q.dispatched > 0:
        return False
    if c.wk_challenge == 0 and c.wk_replace == 0 and c.last_completed == q.waker:
        return False
    if c.wk_long_think != 0 and q.short_think != 0:
        return False
    return s.sim[0].now - c.last_completion < c.wk_window


@jit
def check_waker(s, d, i):
    """A sync request came to a queue without requests: was another queue's completion its cause (2.1)?"""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    if not looks_for_waker(s, c, q, i):
        return
    now = jiffies(s, d)
    candidate = c.last_completed
    expired = c.wk_timeout > 0 and now > q.detection_start + c.wk_timeout
    if candidate != q.tentative or expired:
        if c.wk_replace != 0 and candidate != q.waker:
            set_waker(s, i, NONE)
        q.tentative = candidate
        q.detections = 1
        q.detection_start = now
    else:
        q.detections += 1
    if q.detections >= c.wk_needed:
        set_waker(s, i, q.tentative)
        q.tentative = q.waker if c.wk_replace != 0 else NONE


@jit
def woken_to_front(s, i):
    """A queue that becomes busy is the first of those its waker wakes."""
    q = s.bfq_queues[i]
    if q.waker != NONE:
        set_waker(s, i, q.waker)


@jit
def serve_waker(s, d, i):
    """The waker of the queue that is waited for, if the version's rule lets it be served now; else NONE (1.10)."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    if c.wk_select == 0 or q.waker == NONE or not has_fitting_request(s, q.waker):
        return NONE
    if c.wk_select == 1 and q.next_rq == NONE:
        return NONE
    return q.waker


@jit
def serve_woken(s, d, i):
    """The first queue that this one wakes, if it has a request; else NONE (5.13)."""
    q = s.bfq_queues[i]
    n = s.lists[q.woken].head
    if s.bfq[d].wk_woken == 0 or n == NONE:
        return NONE
    j = n - woken_node(s, 0)
    return j if has_fitting_request(s, j) else NONE
