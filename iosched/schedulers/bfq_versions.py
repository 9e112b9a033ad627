"""What differs between the BFQs of Linux 4.19 to 6.12: the version map of spec bfq section 0, one integer a rule.

A rule is named in `CHANGES` at the version that changed it; a version has the newest value of each rule. The two
patches of thread 1 are versions of their own ("5.6.4+p1", "5.6.4+p1p2"). Version numbers marked R in the spec are from
memory. Not modelled: the tag limit by cgroup weight (5.17) and several actuators (6.3).
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..engine.codes import MSEC
from ..errors import ScenarioError
from ..kernels import Kernel
from .bfq_wakers import WakerRules

# the rules of 4.19, the oldest version modelled
OLDEST = {
    "groups_rule": 0,  # asymmetric by groups: 0 their weights differ, 1 one non-root group is pending, 2 two groups are
    "burst_no_plug": 1,  # a queue of a large burst is not waited for to guarantee its service
    "raised_rule": 0,  # wait for a raised queue: 0 always, 1 if others are not raised, 2 or if the device is full
    "classes_matter": 0,  # two priority classes make the scenario asymmetric
    "lightest_exempt": 0,  # a queue of the smallest weight is not waited for because weights differ
    "only_busy_idles": 0,  # the only busy queue is waited for
    "raised_idle": 0,  # 20 ms for raised queues
    "hw_threshold": 4,  # requests in the device that show that it queues
    "hw_patient": 0,  # no sample while the queue in service merely has few requests
    "injection": 0,  # 0 none, 1 by share of service, 2 by limit
    "base_in_driver": 0,  # requests in the driver at which a baseline is taken; 0 never happens
    "flip_resets": 0,  # the limit is reset when the think time changes sides
    "inject_pause": 100 * MSEC,  # no measurement so soon after the limit was lowered
    "late_inject": 0,  # the limit moves only if something was injected
    "update_base": 0,  # the baseline follows when nothing was injected
    "think_early": 0,  # think time is updated before the request is queued
    "think_idle": 0,  # think time is sampled at real pauses only
    "think_divisor": 1,  # short is at most slice_idle divided by this
    "io_time": 0,  # I/O bound by share of time, else by timely requests
    "preempt_rule": 0,  # 0 by residual budget or raising, 1 also by class and weight, 2 also if waiting is not worth it
    "residual_left": 0,  # a residual budget must not be empty
    "async_fair": 0,  # async requests cost three times only in symmetric scenarios
    "eqm_flash_off": 0,  # no early queue merge on queueing flash
    "eqm_in_service": 0,  # closeness to the queue in service, else to the device's last position
    "keep_empty": 0,  # a preempted empty queue stays in its tree if it is to be waited for
    "seeky_never_soft": 0,  # a totally seeky queue is not soft real-time
    "soft_rt_kept": 0,  # an interactive queue keeps its earliest soft real-time start; a soft one is paid back waiting
    "raise_default_only": 0,  # only queues of weight 40 are raised
    "burst_alone": 0,  # new queues count for a burst only if one is open or the device is idle
    "stable_merge": 0,  # queues created together are merged
    "refs_matter": 0,  # no waiting for a process that is gone
    "polled": 1,  # asked for more while a queue is busy, even without requests
}

CHANGES: dict[str, dict[str, int]] = {
    "5.0": {"groups_rule": 1, "raised_rule": 1, "injection": 1},
    "5.1": {
        "burst_no_plug": 0,
        "classes_matter": 1,
        "hw_threshold": 3,
        "hw_patient": 1,
        "residual_left": 1,
        "async_fair": 1,
        "eqm_in_service": 1,
        "raised_idle": 1,  # the spec has it in 5.2; a real 5.1.15 waits 20 ms
        "soft_rt_kept": 1,  # from the logs of 5.1.15 and 5.2.1 against those of 4.19.44
    },
    "5.2": {
        "lightest_exempt": 1,
        "injection": 2,
        "eqm_flash_off": 1,
        "seeky_never_soft": 1,
        "burst_alone": 1,
    },
    "5.3": {
        "raised_rule": 2,
        "base_in_driver": 1,
        "flip_resets": 1,
        "update_base": 1,
        "think_early": 1,
        "preempt_rule": 1,
        "keep_empty": 1,
    },
    "5.4": {"inject_pause": 10 * MSEC, "late_inject": 1},
    "5.6": {"refs_matter": 1},
    "5.12": {
        "only_busy_idles": 1,
        "think_idle": 1,
        "think_divisor": 2,
        "io_time": 1,
        "preempt_rule": 2,
        "raise_default_only": 1,
    },
    "5.13": {"stable_merge": 1},
    "5.18": {"polled": 0},
    "6.2": {"groups_rule": 2},
}

NO_WAKERS = WakerRules(detect=False, selection="none")
WAKERS_5_3 = WakerRules(window_us=200, detections=2, selection="own request", replace_at_once=True)
WAKERS_PATCH_1 = replace(WAKERS_5_3, selection="waker's request")
WAKERS_PATCH_1_2 = replace(WAKERS_PATCH_1, long_think_time=False)
WAKERS_5_12 = WakerRules()
WAKERS_5_13 = replace(WAKERS_5_12, inject_woken=True, ignore_shared=True, direct_dispatch=True)
WAKERS_5_15 = replace(WAKERS_5_13, arrival="queue idle")
WAKERS_5_17 = replace(WAKERS_5_15, direct_dispatch=False, timeout_slices=128)
WAKERS_5_19 = replace(WAKERS_5_17, arrival="process idle", challenge=True)

WAKERS: dict[str, WakerRules] = {
    "4.0": NO_WAKERS,
    "5.3": WAKERS_5_3,
    "5.12": WAKERS_5_12,
    "5.13": WAKERS_5_13,
    "5.15": WAKERS_5_15,
    "5.17": WAKERS_5_17,
    "5.19": WAKERS_5_19,
}
PATCHES = {"+p1": WAKERS_PATCH_1, "+p1p2": WAKERS_PATCH_1_2}


def waker_rules(kernel: str | Kernel) -> WakerRules:
    """The rules that a kernel shipped, or those of "5.6.4+p1" and "5.6.4+p1p2", 5.6.4 with the patches of thread 1.

    >>> waker_rules("5.6.4+p1p2").long_think_time, waker_rules("5.10").selection
    (False, 'own request')
    """
    kernel = Kernel(kernel)
    patched = re.search(r"\+p1(p2)?$", kernel.text)
    if patched:
        if not "5.3" <= kernel < "5.12":
            raise ScenarioError(f"kernel: {kernel} is not possible; the two patches change the wakers of 5.3 to 5.11.")
        return PATCHES[patched[0]]
    found = NO_WAKERS
    for since, rules in WAKERS.items():
        if kernel >= since:
            found = rules
    stable = re.match(r"5\.15\.(\d+)", kernel.text)
    return WAKERS_5_19 if stable and int(stable[1]) >= 107 else found


def features(kernel: str | Kernel) -> tuple[dict[str, int], WakerRules]:
    """Every rule's value in a kernel version, and its waker rules.

    >>> features("5.0")[0]["injection"], features("6.1")[0]["groups_rule"]
    (1, 1)
    """
    kernel = Kernel(kernel)
    if kernel < "4.12":
        raise ScenarioError(f"kernel: {kernel} has no BFQ; it came with 4.12, and 4.19 is the oldest modelled.")
    values = dict(OLDEST)
    for since, changed in CHANGES.items():
        if kernel >= since:
            values |= changed
    return values, waker_rules(kernel)
