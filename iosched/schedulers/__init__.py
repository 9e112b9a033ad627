"""The schedulers: one file each, the tunables first, then the rules in the order in which a request meets them."""

from __future__ import annotations

from dataclasses import fields

from ..engine import codes
from ..errors import ScenarioError, unknown
from ..kernels import Kernel
from .anticipatory import Anticipatory
from .bfq_tunables import BFQ
from .bfq_versions import waker_rules
from .bfq_wakers import WakerRules
from .cfq import CFQ
from .cfq_old import OldCFQ
from .deadline import Deadline, MqDeadline
from .fifo import Noop, NoScheduler
from .kyber import Kyber

# name in /sys/block/DEV/queue/scheduler -> (tunables, engine number, legacy path?, first kernel, first kernel without)
SCHEDULERS: dict[str, tuple[type, int, bool, str, str]] = {
    "noop": (Noop, codes.NOOP, True, "2.6.24", "5.0"),
    "deadline": (Deadline, codes.DEADLINE, True, "2.6.24", "5.0"),
    "cfq": (CFQ, codes.CFQ, True, "2.6.24", "5.0"),
    "anticipatory": (Anticipatory, codes.ANTICIPATORY, True, "2.6.24", "4.0"),
    "none": (NoScheduler, codes.NO_SCHEDULER, False, "4.0", "7.0"),
    "bfq": (BFQ, codes.BFQ, False, "4.12", "7.0"),
    "mq-deadline": (MqDeadline, codes.MQ_DEADLINE, False, "4.11", "7.0"),
    "kyber": (Kyber, codes.KYBER, False, "4.12", "7.0"),
}
OLD_CFQ = (OldCFQ, codes.OLD_CFQ)  # what "cfq" is up to 2.6.32
NEW_KYBER = "4.20"  # its controller has been the same since (recalled)
SINCE = {"prio_aging_expire": "5.14"}  # tunables that came later than their scheduler


def name_of(tunables: object) -> str:
    """The sysfs name of a scheduler.

    >>> name_of(CFQ())
    'cfq'
    """
    for name, (cls, *_) in SCHEDULERS.items():
        if type(tunables) is cls:
            return name
    if isinstance(tunables, OldCFQ):
        return "cfq"
    raise unknown("scheduler", tunables, SCHEDULERS)


def available(kernel: Kernel) -> list[str]:
    """Schedulers that a kernel version has; kyber from the version on whose controller is modelled.

    >>> available(Kernel("5.10"))
    ['none', 'bfq', 'mq-deadline', 'kyber']
    """
    return [
        n
        for n, (_, _, _, first, gone) in SCHEDULERS.items()
        if kernel >= (NEW_KYBER if n == "kyber" else first) and not (gone != "7.0" and kernel >= gone)
    ]


def scheduler(value: object, kernel: Kernel) -> object:
    """Tunables from a name or an instance, checked against the kernel version.

    Raises ScenarioError for an unknown scheduler, one this kernel lacks, or a tunable this version does not have.
    """
    if value is None:
        value = "cfq" if kernel < "5.0" else "mq-deadline"
    if isinstance(value, str):
        if value not in SCHEDULERS:
            raise unknown("scheduler", value, available(kernel))
        value = (OldCFQ if value == "cfq" and kernel.old else SCHEDULERS[value][0])()
    name = name_of(value)
    _, _, _, first, gone = SCHEDULERS[name]
    if isinstance(value, Kyber) and first <= kernel < NEW_KYBER:
        raise ScenarioError(
            f"scheduler: kyber of kernel {kernel} has another controller, which is not modelled; give kernel "
            f"{NEW_KYBER} or later."
        )
    if name not in available(kernel):
        when = f"came with {first}" if kernel < first else f"went with {gone}"
        raise ScenarioError(
            f"scheduler: {name!r} does not exist in kernel {kernel}, it {when}; allowed: "
            f"{', '.join(available(kernel))}."
        )
    if isinstance(value, CFQ if kernel.old else OldCFQ):
        raise ScenarioError(
            f"scheduler: {type(value).__name__}'s tunables are not those of kernel {kernel}, whose CFQ is another: "
            f"give {'OldCFQ' if kernel.old else 'CFQ'}."
        )
    if isinstance(value, BFQ):
        value.check_version(kernel)
    for f in fields(value):  # type: ignore[arg-type]
        since = SINCE.get(f.name)
        if since and getattr(value, f.name) is not None and kernel < since:
            raise ScenarioError(
                f"scheduler.{f.name}: {name} of kernel {kernel} has no such tunable; it came with {since}."
            )
    return value


def with_tunables(name: str, kernel: Kernel, tunables: dict[str, object]) -> object:
    """A scheduler by name with tunables by their sysfs names; unknown ones are refused.

    >>> with_tunables("cfq", Kernel("4.19"), {"slice_idle": 0}).slice_idle
    0
    """
    cls = type(scheduler(name, kernel))
    known = [f.name for f in fields(cls)]
    for key in tunables:
        if key not in known:
            raise unknown(f"scheduler.{key}", key, known, f" These are the tunables of {name}.")
    return scheduler(cls(**tunables), kernel)


__all__ = [
    "BFQ",
    "CFQ",
    "OLD_CFQ",
    "SCHEDULERS",
    "Anticipatory",
    "Deadline",
    "Kyber",
    "MqDeadline",
    "NoScheduler",
    "Noop",
    "OldCFQ",
    "WakerRules",
    "available",
    "name_of",
    "scheduler",
    "waker_rules",
    "with_tunables",
]
