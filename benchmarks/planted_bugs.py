"""`make planted-bugs`: small wrong changes, each of which the tests must notice.

Every change is a piece of a source and what stands in its place. It is applied to a scratch copy, whose rules are then
tested as plain Python (tests/plain: a compiled engine would take a minute and a half a bug). Writes a table; ends with
1 if a bug goes unnoticed. `planted_bugs.py NAME ...` plants only those.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "iosched"
TABLE = ROOT / "docs" / "planted-bugs.md"
TIMEOUT_S = 300  # a bug may also show as a run without end


@dataclass(frozen=True)
class Bug:
    """`right` stands once in `file` (below iosched/); `wrong` takes its place."""

    name: str
    what: str
    file: str
    right: str
    wrong: str


BUGS = (
    Bug("deadline-fifo", "an expired request is not served first", "schedulers/deadline.py",
        "if following == NONE or s.sim[0].now >= s.requests[oldest].fifo_time:", "if following == NONE:"),
    Bug("deadline-starved", "writes starve one round longer", "schedulers/deadline.py",
        "if dl.starved >= dl.writes_starved:", "if dl.starved > dl.writes_starved:"),
    Bug("deadline-batch", "a batch is one request longer", "schedulers/deadline.py",
        "dl.batching < dl.fifo_batch", "dl.batching <= dl.fifo_batch"),
    Bug("deadline-expiry", "reads get the deadline of writes", "schedulers/deadline.py",
        "(dl.read_expire if r.op == READ else dl.write_expire)",
        "(dl.write_expire if r.op == READ else dl.read_expire)"),
    Bug("deadline-next", "a batch goes down in sectors", "schedulers/deadline.py",
        "after = s.nodes[2 * ri].next", "after = s.nodes[2 * ri].prev"),
    Bug("mq-deadline-classes", "the lowest priority class is served first", "schedulers/deadline.py",
        "for i in (RT, BE, IDLE):\n        row", "for i in (IDLE, BE, RT):\n        row"),
    Bug("mq-deadline-aging", "what has aged is not served", "schedulers/deadline.py",
        "    if busy >= 2:", "    if busy >= 4:"),
    Bug("cfq-ancestors", "a descendant preempts its ancestor instead", "schedulers/cfq.py",
        "group_may_preempt(s, c, n.group, a.group)", "group_may_preempt(s, c, a.group, n.group)"),
    Bug("cfq-group-idle", "group_idle is waited where slice_idle should be", "schedulers/cfq_idling.py",
        "        length = c.slice_idle\n", "        length = c.group_idle\n"),
    Bug("cfq-timer", "the idle timer is armed but never expires a queue", "schedulers/cfq_idling.py",
        "    idle_end(s, d, END_FIRED)\n    expire(s, d, False)\n", "    idle_end(s, d, END_FIRED)\n"),
    Bug("cfq-preempted-last", "who preempts is put at the end of its tree", "schedulers/cfq.py",
        "tree_insert(s, d, i, True)", "tree_insert(s, d, i, False)"),
    Bug("cfq-ncq", "queueing is seen one request too late", "schedulers/cfq_idling.py",
        "c.hw_tag = 1 if c.est_depth >= HW_QUEUE_MIN else 0", "c.hw_tag = 1 if c.est_depth > HW_QUEUE_MIN else 0"),
    Bug("cfq-cooperators", "queues of two groups cooperate", "schedulers/cfq_cooperators.py",
        "if q.group != a.group or q.sync == 0 or seeky(q)", "if q.sync == 0 or seeky(q)"),
    Bug("cfq-slices", "high priorities get short slices", "schedulers/cfq_service.py",
        "base + base // 5 * (4 - ioprio)", "base + base // 5 * (ioprio - 4)"),
    Bug("cfq-weights", "a group's share is not looked at when it is charged", "schedulers/cfq_service.py",
        "(charge << (2 * SERVICE_SHIFT)) // group.vfraction", "charge << SERVICE_SHIFT"),
    Bug("cfq-workload", "the workload with the largest key is served", "schedulers/cfq_service.py",
        "s.nodes[head].key < best_key", "s.nodes[head].key > best_key"),
    Bug("bfq-eligible", "who has not started yet may be served", "schedulers/bfq_wf2q.py",
        "        if s.bfq_entities[e].start <= vtime:\n            return e",
        "        if vtime == vtime:\n            return e"),
    Bug("bfq-weights", "weights do not count in virtual time", "schedulers/bfq_wf2q.py",
        "row.finish = row.start + virtual_time(row.budget, row.weight)",
        "row.finish = row.start + virtual_time(row.budget, 10)"),
    Bug("bfq-vtime", "virtual time goes back", "schedulers/bfq_wf2q.py",
        "return max(tree.vtime, earliest)", "return earliest"),
    Bug("bfq-io-bound", "queues that are not I/O bound are waited for", "schedulers/bfq_idling.py",
        "not seeky(q) and q.io_bound != 0 and q.short_think != 0", "not seeky(q) and q.short_think != 0"),
    Bug("bfq-groups", "the root's queues make groups asymmetric", "schedulers/bfq_idling.py",
        "].group != c.root:\n                return True", "].group == c.root:\n                return True"),
    Bug("bfq-raised-idle", "a raised queue is waited for as any other", "schedulers/bfq_idling.py",
        "length = max(length, RAISED_IDLE)", "length = min(length, RAISED_IDLE)"),
    Bug("bfq-wakers", "a waker is believed one time too early", "schedulers/bfq_wakers.py",
        "if q.detections >= c.wk_needed:", "if q.detections + 1 >= c.wk_needed:"),
    Bug("bfq-waker-window", "completions of long ago wake", "schedulers/bfq_wakers.py",
        "return s.sim[0].now - c.last_completion < c.wk_window",
        "return s.sim[0].now - c.last_completion > c.wk_window"),
    Bug("bfq-injection-down", "injection is cut at any delay", "schedulers/bfq_injection.py",
        "if 2 * took >= 3 * q.last_serv:", "if 3 * took >= 2 * q.last_serv:"),
    Bug("bfq-injection-limit", "one request too many is injected", "schedulers/bfq_injection.py",
        "            if c.in_driver < allowed:", "            if c.in_driver <= allowed:"),
    Bug("kyber-tokens", "a domain gets one token too many", "schedulers/kyber.py",
        "if row.used >= row.depth:", "if row.used > row.depth:"),
    Bug("kyber-depth", "late reads get fewer tokens", "schedulers/kyber.py",
        "row.depth * (p99 + 1) // GOOD_BUCKETS", "row.depth * GOOD_BUCKETS // (p99 + 1)"),
    Bug("noop-order", "noop serves the newest first", "schedulers/fifo.py",
        "push_back(s, s.devices[s.requests[ri].dev].fifo, 2 * ri)",
        "push_front(s, s.devices[s.requests[ri].dev].fifo, 2 * ri)"),
    Bug("jbd2-descriptor", "a commit has no descriptor block", "engine/journal.py",
        "j.blocks = buffers + (buffers + TAGS_PER_DESCRIPTOR - 1) // TAGS_PER_DESCRIPTOR", "j.blocks = buffers"),
    Bug("jbd2-waiters", "who waits for this commit is not woken", "engine/journal.py",
        ".tid <= j.committed:", ".tid < j.committed:"),
    Bug("jbd2-early", "an fsync returns at the log block's completion", "programs.py",
        "return [*begin, *take, *log, (c.OP_CPU, before_commit, 0), *commit, *end]",
        "return [*begin, *take, *log, *end]"),
    Bug("xfs-flush", "XFS's log write does not flush", "programs.py",
        "return c.F_SYNC | c.F_META | c.F_PREFLUSH | c.F_FUA | idle", "return c.F_SYNC | c.F_META | c.F_FUA | idle"),
    Bug("fua", "a device without FUA is not flushed after the commit", "engine/flush.py",
        "if (r.cmd_flags & F_FUA) != 0 and dev.fua == 0:", "if (r.cmd_flags & F_FUA) != 0 and dev.fua != 0:"),
    Bug("flush-twice", "a second flush starts beside the first", "engine/flush.py",
        "if dev.flush_running != NONE or s.lists[lst].count == 0:", "if s.lists[lst].count == 0:"),
    Bug("device-depth", "the device takes one command too many", "engine/device.py",
        "dev.in_flight < dev.depth", "dev.in_flight <= dev.depth"),
    Bug("device-servers", "one server works on two commands", "engine/device.py",
        "dev.busy_servers < dev.servers", "dev.busy_servers <= dev.servers"),
    Bug("device-driver", "the driver and the interrupt cost nothing", "engine/device.py",
        "schedule(s, sim.now + length + sim.request_ns, EV_COMPLETE, ri)",
        "schedule(s, sim.now + length, EV_COMPLETE, ri)"),
    Bug("disk-settle", "the arm needs no time to settle", "engine/platter.py",
        "return k.settle_ns + int(k.root_ns", "return int(k.root_ns"),
    Bug("disk-age", "old commands wait for ever", "engine/disk.py",
        "s.sim[0].now - s.requests[ri].issued > k.age_ns", "s.sim[0].now - s.requests[ri].issued < -k.age_ns"),
    Bug("disk-choice", "NCQ takes the farthest command", "engine/disk.py",
        "        if cost < least:", "        if cost < least or cost > 0:"),
)  # fmt: skip


# the tests that are asked, by the beginning of the file's name (pytest's -k); all of them without a bug
TESTS = {
    "schedulers/bfq": "scheduler_rules or bfq",
    "schedulers/cfq": "scheduler_rules or cfq",
    "schedulers/deadline": "scheduler_rules or deadline or classes or aged",
    "schedulers/kyber": "scheduler_rules or kyber",
    "": "disk_rules or (small_runs and not bfq and not cfq)",
}


def plant(bug: Bug, package: Path) -> None:
    """Apply a bug to a copy. Raises ValueError if what it changes is not there exactly once."""
    path = package / bug.file
    text = path.read_text(encoding="utf-8")
    if text.count(bug.right) != 1:
        raise ValueError(f"{bug.name}: {bug.right!r} stands {text.count(bug.right)} times in {bug.file}, not once.")
    planted = text.replace(bug.right, bug.wrong)
    if "push_front" in bug.wrong and "push_front" not in text:
        planted = planted.replace("import pop_front, ", "import pop_front, push_front, ")
    path.write_text(planted, encoding="utf-8")


def caught_by(bug: Bug | None) -> str:
    """The tests that fail with the bug (None: without any); empty if none does."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("iosched", "data", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        if bug is not None:
            plant(bug, copy / "iosched")
        asked = "" if bug is None else next(tests for file, tests in TESTS.items() if bug.file.startswith(file))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "--tb=no",
            "-k",
            asked,
            "tests/plain",
        ]
        env = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "a run without end"
        if done.returncode == 0:
            return ""
        failed = re.findall(r"^(?:FAILED|ERROR) tests/plain/(.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        return failed[0] if failed else done.stdout[-300:] + done.stderr[-300:]


def main() -> int:
    wanted = [bug for bug in BUGS if not sys.argv[1:] or bug.name in sys.argv[1:]]
    with ThreadPoolExecutor(int(os.environ.get("JOBS", 2))) as pool:
        futures = {pool.submit(caught_by, bug): bug for bug in [*wanted, None]}
        for future in as_completed(futures):
            name = futures[future].name if futures[future] else "without any bug"
            print(f"{name:22} {future.result() or 'not caught'}", file=sys.stderr, flush=True)
    tests = {bug: future.result() for future, bug in futures.items()}
    if tests[None]:
        print(f"the tests fail without any bug: {tests[None]}", file=sys.stderr)
        return 1
    found = [tests[bug] for bug in wanted]
    rows = [(b.name, b.what, b.file, f"`{test}`" if test else "**not caught**") for b, test in zip(wanted, found)]
    lines = ["| " + " | ".join(row) + " |" for row in [("bug", "what it does", "file", "caught by"), *rows]]
    lines.insert(1, "|---|---|---|---|")
    caught = sum(map(bool, found))
    text = f"# Planted bugs\n\n`make planted-bugs`: {caught} of {len(wanted)} caught.\n\n" + "\n".join(lines) + "\n"
    print(text)
    if not sys.argv[1:]:
        TABLE.write_text(text, encoding="utf-8")
    return int(caught < len(wanted))


if __name__ == "__main__":
    sys.exit(main())
