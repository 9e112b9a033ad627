"""kyber: reads and writes in domains of their own, whose depth follows the latencies (spec block-layer section 6).

A request holds a token of its domain from dispatch to completion. Every 100 ms histograms of the latencies, in quarters
of each domain's target, say whether somebody misses it; then domains whose 99th percentile is good give up depth, and
bad ones grow. Discards and other requests, which have domains too, do not occur here.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..engine.clock import arm, armed
from ..engine.codes import MSEC, NONE, READ, SEC, T_IDLE
from ..engine.columns import columns
from ..engine.jit import jit
from ..engine.lists import pop_front, push_back, remove
from ..engine.requests import is_sync
from ..knobs import check, knob, named

READS, WRITES = 0, 1
DOMAINS = 2
BUCKETS = 8  # of a histogram, each a quarter of the target wide; from the fourth on they are bad
GOOD_BUCKETS = 4
TOTAL, DEVICE = 0, 1  # latency from allocation, and from the driver
KINDS = 2
INTERVAL = 100 * MSEC
FEWEST_SAMPLES, LONGEST_WAIT = 500, SEC  # of a histogram before it is looked at
ASYNC_PERCENT = 75  # of the tags, for what is not sync

DEVICE_COLUMNS = columns("domain batching")
DOMAIN_COLUMNS = columns("fifo used depth most batch target remembered")
HISTOGRAM_COLUMNS = columns("samples since")
BUCKET_COLUMNS = columns("n")


@named
@dataclass(frozen=True)
class Kyber:
    """kyber's tunables. This is the controller of 4.20 and later.

    >>> Kyber(read_lat_nsec=1_000_000).write_lat_nsec
    10000000
    """

    read_lat_nsec: int = knob(2_000_000, "target latency of reads", "ns", 8, 2**62, integer=True,
                              sysfs="read_lat_nsec", slider=(100_000, 100_000_000, "log"))  # fmt: skip
    write_lat_nsec: int = knob(10_000_000, "target latency of writes", "ns", 8, 2**62, integer=True,
                               sysfs="write_lat_nsec", slider=(100_000, 100_000_000, "log"))  # fmt: skip

    def __post_init__(self) -> None:
        check(self, "scheduler.")

    def fill(self, s, d: int) -> None:
        """Write the tunables of device `d`, and the depths at which the domains begin, into the engine's tables."""
        given = ((self.read_lat_nsec, 256, 16), (self.write_lat_nsec, 128, 8))
        for k, (target, depth, batch) in enumerate(given):
            row = s.kyber_domains[d * DOMAINS + k]
            row.target, row.most, row.depth, row.batch, row.remembered = target, depth, depth, batch, NONE


@jit
def domain_of(s, d, op):
    """Row of a request's domain: reads, or all writes, sync or not."""
    return d * DOMAINS + (READS if op == READ else WRITES)


@jit
def merge_list(s, d, op):
    """List in which a new bio may find a request to join."""
    return s.kyber_domains[domain_of(s, d, op)].fifo


@jit
def tag_limit(s, d, op, flags):
    """Tags that a request of this kind may take part in: what is not sync leaves a quarter."""
    most = s.devices[d].nr_requests
    return most if is_sync(op, flags) else max(most * ASYNC_PERCENT // 100, 1)


@jit
def insert(s, ri):
    """To the end of its domain's list."""
    r = s.requests[ri]
    push_back(s, s.kyber_domains[domain_of(s, r.dev, r.op)].fifo, 2 * ri)


@jit
def withdraw(s, ri):
    """Take a pending request out (it was merged into another)."""
    remove(s, 2 * ri)


@jit
def dispatch(s, d):
    """Go on with the domain's batch, else the next domain that has a request and a token; NONE if there is none."""
    k = s.kyber[d]
    if k.batching < s.kyber_domains[d * DOMAINS + k.domain].batch:
        ri = take(s, d, k.domain)
        if ri != NONE:
            return ri
    k.batching = 0
    for i in range(1, DOMAINS + 1):
        domain = (k.domain + i) % DOMAINS
        ri = take(s, d, domain)
        if ri != NONE:
            k.domain = domain
            return ri
    return NONE


@jit
def take(s, d, domain):
    """The domain's oldest request with a token, or NONE."""
    row = s.kyber_domains[d * DOMAINS + domain]
    if row.used >= row.depth:
        return NONE
    n = pop_front(s, row.fifo)
    if n == NONE:
        return NONE
    row.used += 1
    s.kyber[d].batching += 1
    return n >> 1


@jit
def completed(s, ri):
    """Give the token back and count the latencies. True asks for a dispatch, by which a waiting request gets it."""
    r = s.requests[ri]
    d = r.dev
    row = s.kyber_domains[domain_of(s, d, r.op)]
    row.used -= 1
    now = s.sim[0].now
    count(s, histogram_of(s, d, r.op, TOTAL), now - r.start, row.target)
    count(s, histogram_of(s, d, r.op, DEVICE), now - r.issued, row.target)
    if not armed(s, d, T_IDLE):
        arm(s, d, T_IDLE, now + INTERVAL)
    return s.devices[d].queued > 0


@jit
def histogram_of(s, d, op, kind):
    """Row of a domain's histogram."""
    return domain_of(s, d, op) * KINDS + kind


@jit
def count(s, row, latency, target):
    """One more latency in its bucket."""
    bucket = min(max(latency - 1, 0) // (target // GOOD_BUCKETS), BUCKETS - 1)
    s.kyber_buckets[row * BUCKETS + bucket].n += 1
    s.kyber_histograms[row].samples += 1


@jit
def timer_fired(s, d):
    """100 ms after the first completion: resize the domains. Nobody misses a target: only a domain whose own total is
    bad changes (it grows). Somebody does: each follows its last known percentile, down as well as up."""
    bad = False
    for k in range(DOMAINS):
        bad = percentile(s, (d * DOMAINS + k) * KINDS + DEVICE, 90) >= GOOD_BUCKETS or bad
    for k in range(DOMAINS):
        row = s.kyber_domains[d * DOMAINS + k]
        p99 = percentile(s, (d * DOMAINS + k) * KINDS + TOTAL, 99)
        if bad:
            if p99 == NONE:
                p99 = row.remembered
            row.remembered = NONE
        elif p99 != NONE:
            row.remembered = p99
        if p99 != NONE and (bad or p99 >= GOOD_BUCKETS):
            row.depth = min(max(row.depth * (p99 + 1) // GOOD_BUCKETS, 1), row.most)


@jit
def percentile(s, row, percent):
    """Bucket of a percentile, which empties the histogram; NONE before it has 500 samples or is a second old."""
    h = s.kyber_histograms[row]
    if h.samples == 0:
        return NONE
    now = s.sim[0].now
    if h.since == 0:
        h.since = now
    if h.samples < FEWEST_SAMPLES and now - h.since < LONGEST_WAIT:
        return NONE
    rank = (h.samples * percent + 99) // 100
    bucket = NONE
    for b in range(BUCKETS):
        if rank > 0:
            bucket = b
        rank -= s.kyber_buckets[row * BUCKETS + b].n
        s.kyber_buckets[row * BUCKETS + b].n = 0
    h.samples = h.since = 0
    return bucket
