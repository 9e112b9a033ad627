"""The cgroup tree of a machine: paths, weights, and who is charged for what.

A task's sync requests are charged to its own cgroup. Kernel threads (jbd2, workers) live in the root unless a file
system places them elsewhere; buffered async writeback belongs to the root on cgroup v1 (spec block-layer section 0).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from .errors import ScenarioError, number, unknown
from .knobs import named

ROOT = "/"
DEFAULT_WEIGHT = 500  # cgroup v1: 10..1000, default 500, root 1000 (spec block-layer 1.1)
ROOT_WEIGHT = 1000
LIMITS = ("rbps", "riops", "wbps", "wiops")
DEFAULT_BFQ_WEIGHT = 100  # spec bfq-and-controllers section 7


@named
@dataclass(frozen=True)
class Cgroup:
    """One cgroup: blkio.weight and blkio.leaf_weight of cgroup v1 (CFQ), BFQ's own blkio.bfq.weight, 1 to 1000, the
    target of io.latency in microseconds (cgroup v2, since 4.19; None is off), io.weight (v2, for `IOCost`, 1 to
    10000), and the limits of io.max (blkio.throttle on v1): rbps and wbps in bytes a second, riops and wiops in
    operations.

    >>> Cgroup("user.slice").weight
    500
    """

    path: str
    weight: int = DEFAULT_WEIGHT
    leaf_weight: int | None = None
    bfq_weight: int = DEFAULT_BFQ_WEIGHT
    io_latency_us: float | None = None
    io_weight: int = 100
    rbps: float | None = None
    wbps: float | None = None
    riops: float | None = None
    wiops: float | None = None

    @property
    def limited(self) -> bool:
        """Has it a limit of io.max?"""
        return any(getattr(self, name) is not None for name in LIMITS)


class Cgroups:
    """The tree. Parents come into being with their children; the root is always there.

    Give paths, or a mapping from path to weight. Without arguments it is what systemd makes: system.slice, user.slice.
    `version` is that of the cgroup interface; None is 2 where a group has an io.latency target, else open.

    >>> Cgroups(["a/b"]).paths
    ('/', 'a', 'a/b')
    >>> Cgroups({"fast": 1000, "slow": 10}).of("slow").weight
    10
    """

    def __init__(
        self,
        groups: Iterable[str] | Mapping[str, int] | Iterable[Cgroup] | None = None,
        version: int | None = None,
    ) -> None:
        if version not in (None, 1, 2):
            raise ScenarioError(f"cgroups.version: {version!r} is not allowed; give 1, 2, or None.")
        self.version = version
        if groups is None:
            groups = ["system.slice", "user.slice"]
        if isinstance(groups, (str, bytes)) or not isinstance(groups, Iterable) or getattr(groups, "ndim", 1) == 0:
            raise ScenarioError(f"cgroups: {groups!r} is not a list of paths; give one such as ['user.slice', 'a/b'].")
        self._groups: dict[str, Cgroup] = {ROOT: Cgroup(ROOT, ROOT_WEIGHT)}
        items = groups.items() if isinstance(groups, Mapping) else ((g, None) for g in groups)
        for key, weight in items:
            group = key if isinstance(key, Cgroup) else Cgroup(key, DEFAULT_WEIGHT if weight is None else weight)
            self._add(group)

    def _add(self, group: Cgroup) -> None:
        path = normalise(group.path)
        if path == ROOT and group.path not in ("/", "root"):
            raise ScenarioError(
                f"cgroups: {group.path!r} is not a cgroup path; give one such as 'user.slice' or 'a/b'."
            )
        number(f"cgroups[{path!r}].weight", group.weight, 10, 1000, integer=True)
        leaf = group.leaf_weight
        if leaf is not None:
            number(f"cgroups[{path!r}].leaf_weight", leaf, 10, 1000, integer=True)
        number(f"cgroups[{path!r}].bfq_weight", group.bfq_weight, 1, 1000, integer=True)
        number(f"cgroups[{path!r}].io_weight", group.io_weight, 1, 10000, integer=True)
        for name in LIMITS:
            if getattr(group, name) is not None:
                number(f"cgroups[{path!r}].{name}", getattr(group, name), 1, 1e12)
                if path == ROOT:
                    raise ScenarioError(f"cgroups['/'].{name}: the root has no limits; give it to a group below it.")
        if group.io_latency_us is not None:
            self._check_io_latency(path, group)
        parent = parent_of(path)
        if parent is not None and parent not in self._groups:
            self._add(Cgroup(parent))
        self._groups[path] = replace(group, path=path)

    def _check_io_latency(self, path: str, group: Cgroup) -> None:
        """io.latency is a file of cgroup v2's groups other than the root; 0 would be no target."""
        field = f"cgroups[{path!r}].io_latency_us"
        if group.io_latency_us == 0:
            raise ScenarioError(f"{field}: a target of 0 is none; give at least 1 us, or None to switch it off.")
        number(field, group.io_latency_us, 1, 1e9, "us")
        if path == ROOT:
            raise ScenarioError(f"{field}: the root has no io.latency; give the target to a group below it.")
        if self.version == 1 or group.leaf_weight is not None:
            raise ScenarioError(f"{field}: cgroup v1 has no io.latency; give cgroups of version 2 (no leaf_weight).")

    @property
    def targets_us(self) -> dict[str, float]:
        """io.latency's target of each group that has one."""
        return {p: g.io_latency_us for p, g in self._groups.items() if g.io_latency_us is not None}

    @property
    def limited(self) -> bool:
        """Has a group a limit of io.max?"""
        return any(g.limited for g in self._groups.values())

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path, parents before their children."""
        return tuple(sorted(self._groups, key=lambda p: (p != ROOT, p)))

    def of(self, path: str, field: str = "cgroup") -> Cgroup:
        """The cgroup at a path; ScenarioError if the machine has none."""
        found = self._groups.get(normalise(path, field))
        if found is None:
            raise unknown(
                field, path, self.paths, " Declare it: Machine(cgroups=[...]), or cgroups = [...] under [machine]."
            )
        return found

    def index(self, path: str, field: str = "cgroup") -> int:
        """Row of the cgroup in the engine's tables."""
        return self.paths.index(self.of(path, field).path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cgroups) and (self._groups, self.version) == (other._groups, other.version)

    def __hash__(self) -> int:
        return hash(tuple(self._groups.values()))

    def __repr__(self) -> str:
        below = {p: g for p, g in self._groups.items() if p != ROOT}
        plain = all(g == Cgroup(p, g.weight) for p, g in below.items())
        groups = {p: g.weight for p, g in below.items()} if plain else list(below.values())
        return f"Cgroups({groups}{'' if self.version is None else f', version={self.version}'})"


def normalise(path: str, field: str = "cgroup") -> str:
    """'/', '' and 'root' are the root; others lose leading and trailing slashes."""
    if not isinstance(path, str):
        raise ScenarioError(f"{field}: {path!r} is not a cgroup path; give a text such as 'user.slice'.")
    path = path.strip().strip("/")
    if path in ("", "root"):
        return ROOT
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise ScenarioError(f"{field}: {path!r} is not a cgroup path; give names between slashes, such as 'a/b'.")
    return path


def parent_of(path: str) -> str | None:
    """The parent's path; None for the root."""
    if path == ROOT:
        return None
    return path.rpartition("/")[0] or ROOT


def is_ancestor_or_same(ancestor: str, path: str) -> bool:
    """Is `ancestor` the cgroup `path` itself or above it?

    >>> is_ancestor_or_same("/", "a"), is_ancestor_or_same("a", "/"), is_ancestor_or_same("a", "a/b")
    (True, False, True)
    """
    step: str | None = normalise(path)
    while step is not None:
        if step == normalise(ancestor):
            return True
        step = parent_of(step)
    return False
