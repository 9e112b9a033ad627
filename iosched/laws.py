"""The laws that every run must obey, checked on every result. A broken law is a bug of the engine, not of the input."""

from __future__ import annotations

from .engine import codes as c
from .engine.state import State
from .errors import EngineError

IN_LOOP = {
    c.E_DOUBLE_COMPLETION: "a request completes once: one completed that was not in the device",
    c.E_EARLY_COMPLETION: "a request never completes before it was served",
    c.E_DEPTH: "the device never holds more commands than its queue depth",
    c.E_FLUSH_ORDER: "a flush makes durable only what was complete when it was issued",
    c.E_POOL: "the request pool never runs out behind the tag limit",
    c.E_TRACE: "one event writes no more trace rows than the buffer keeps free",
    c.E_BAD_OP: "a program has only operations that exist",
}


def check_laws(s: State, stop: int) -> None:
    """Raise EngineError, naming the law, if the run broke one."""
    if stop == c.STOP_ERROR:
        raise EngineError(f"broken law: {IN_LOOP.get(int(s.sim[0].error), 'unknown')} (at {s.sim[0].now} ns).")
    now, epoch = int(s.sim[0].now), int(s.sim[0].epoch)
    _equal("tasks that wait for I/O are counted", s.sim[0].io_waiters, s.tasks.in_io_wait.sum())
    n_idle = int(s.sim[0].n_tasks) * len(c.IDLE_REASONS)
    for d, dev in enumerate(s.devices):
        from_now = now - int(dev.accounted_at)  # the integrals are exact at the last event that changed them
        live = s.requests[(s.requests.state != c.R_FREE) & (s.requests.dev == d)]
        _equal("requests in = requests out + in the system", dev.arrived, dev.completed + len(live))
        _equal("requests in the system are counted", dev.in_system, len(live))
        ages = int((now - live.start).sum())
        _equal(
            "Little's law (time integral of requests = sum of their times)",
            int(dev.area_in_system) + from_now * int(dev.in_system),
            int(dev.sojourn_ns) + ages,
        )
        _most("times of reads and writes, at most all", dev.read_sojourn_ns + dev.write_sojourn_ns, dev.sojourn_ns)
        waiting = sum(_bio_sectors(s, r) for r in live)
        _equal("sectors in = sectors out + in flight", dev.sectors_in, dev.sectors_out + waiting)
        _equal("busy + held + empty = elapsed", dev.busy_ns + dev.held_ns + dev.empty_ns, dev.accounted_at - epoch)
        _most("device time served, at most elapsed x servers", dev.served_ns, _served_bound(s, dev, now - epoch, now))
        if dev.io_latency:
            _places(s, d, live)
        if dev.disk:
            _arm_and_cache(s.disks[d], int(dev.served_ns), now - epoch, now)
        if dev.ssd:
            _equal("sectors buffered = programmed + held", s.ssds[d].taken, s.ssds[d].programmed + s.ssds[d].held)
        _pages(s, d, live)
        if dev.wbt:
            holders = int(live.wbt.sum() + s.tasks.wbt_place[s.tasks.dev == d].sum())
            _equal("wbt: writes in flight = requests and tasks with a place", s.wbt[d].inflight, holders)
        idle = s.idle[d * n_idle : (d + 1) * n_idle]
        _most("idling that held requests, at most all idling", idle.held_ns.sum(), _idle_total(idle, dev, now))
        _most("held time, at least what idling explains", idle.held_ns.sum(), dev.held_ns)


def _arm_and_cache(disk, served_ns: int, elapsed: int, now: int) -> None:
    """A disk has one arm; what its write cache took is on the medium, was overwritten, or is still in it."""
    ahead = max(int(disk.until) - now, 0)
    _most("the arm's time, at most elapsed", served_ns + int(disk.destage_ns), elapsed + ahead)
    _equal("sectors cached = written + overwritten + held", disk.taken, disk.written + disk.overwritten + disk.held)
    _most("sectors in the write cache, at most its size", disk.held, disk.cache_sectors)


def _places(s: State, d: int, live) -> None:
    """io.latency: what a group has in flight is its bios in the device or the scheduler, and those just let in."""
    held = dict.fromkeys(range(int(s.sim[0].n_groups)), 0)
    for r in live:
        bi = int(r.bios)
        while bi != c.NONE:
            if s.bios[bi].tracked:
                _climb(s, held, int(s.tasks[s.bios[bi].task].group), 0)
            bi = int(s.bios[bi].next)
    for t in s.tasks[s.tasks.climb != c.NONE]:
        _climb(s, held, int(t.group), int(t.climb))
    for group, n in held.items():
        if group != 0:
            _equal("io.latency's places = bios that hold them", s.latency[d * len(held) + group].inflight, n)


def _pages(s: State, d: int, live) -> None:
    """The page cache: each page that became dirty is dirty, under writeback in a bio of its file, or clean."""
    cache, files = s.caches[d], s.files[s.files.flusher != c.NONE]
    _equal(
        "pages dirtied = cleaned + under writeback + dirty",
        cache.dirtied,
        cache.written + cache.writeback + cache.dirty,
    )
    _equal("pages dirtied, file by file", cache.dirtied, files.dirtied.sum())
    _equal("dirty pages, file by file", cache.dirty, (files.dirtied - files.taken).sum())
    _equal("pages under writeback, file by file", cache.writeback, (files.taken - files.cleaned).sum())
    _equal("pages under writeback = pages in bios", cache.writeback, sum(_cleaned_by(s, r) for r in live))


def _cleaned_by(s: State, r) -> int:
    """Pages of the page cache that a request's bios write."""
    total, bi = 0, int(r.bios)
    while bi != c.NONE:
        if s.bios[bi].file != c.NONE:
            total += int(s.bios[bi].nr) // c.PAGE_SECTORS
        bi = int(s.bios[bi].next)
    return total


def _climb(s: State, held: dict[int, int], group: int, to: int) -> None:
    """Count one place in each group from `group` up to, but not in, `to`."""
    while group != to:
        held[group] += 1
        group = int(s.groups[group].parent)


def _served_bound(s: State, dev, elapsed: int, now: int) -> int:
    """Elapsed time times servers, plus what commands in service still have before them."""
    ahead = sum(max(int(r.earliest) - now, 0) for r in s.requests[s.requests.state == c.R_ISSUED])
    return elapsed * int(dev.servers) + ahead


def _idle_total(idle, dev, now: int) -> int:
    """All idle windows, the open one included."""
    running = now - int(dev.idle_since) if dev.idle_row != c.NONE else 0
    return int(idle.total_ns.sum()) + running


def _bio_sectors(s: State, r) -> int:
    """Sectors of a request's bios that are still attached."""
    total, bi = 0, int(r.bios)
    while bi != c.NONE:
        total += int(s.bios[bi].nr)
        bi = int(s.bios[bi].next)
    return total


def _equal(law: str, left, right) -> None:
    if int(left) != int(right):
        raise EngineError(f"broken law: {law}: {int(left)} against {int(right)}.")


def _most(law: str, value, bound) -> None:
    if int(value) > int(bound):
        raise EngineError(f"broken law: {law}: {int(value)} against {int(bound)}.")
