"""The tables and fixed figures of BFQ.

Source: spec bfq-and-controllers section 1.1 and the fixed rows of section 7. One row of `s.bfq` a device,
`s.bfq_queues` a queue, `s.bfq_entities` a queue or a group, `s.bfq_groups` a (device, cgroup), `s.bfq_trees` three a
group, `s.bfq_contexts` a (device, task), which is the kernel's bic. Times are ns, places and budgets sectors.
"""

from __future__ import annotations

from ..engine.codes import MSEC, SEC
from ..engine.columns import columns

# priority classes in the engine's numbering; each is one service tree of a group
BE, RT, IDLE = 0, 1, 2
TREES = 3
ASYNC_SLOTS = 17  # async queues of a group: [BE, RT] x 8 levels, and one of the idle class

# why a queue's slot ends (the numbers are those that BFQ logs)
TOO_IDLE, BUDGET_TIMEOUT, BUDGET_EXHAUSTED, NO_MORE_REQUESTS, PREEMPTED = 0, 1, 2, 3, 4

DEFAULT_BUDGET = 16384  # sectors
MIN_BUDGET_SHARE = 32
SEEK_THRESHOLD = 800  # sectors
CLOSE_THRESHOLD = 8192  # sectors
SMALL_NONROTATIONAL = 64  # sectors
SMALL_REQUEST = 32  # sectors
HISTORY_BITS = 0xFFFFFFFF
SEEKY_BITS = 19
HW_SAMPLES = 32
THINK_VALID = 80  # samples are fixed point: the third one reaches 84
BUDGETS_ASSIGNED_ENOUGH = 194
TIMELY_REQUESTS = 120
MERGE_WINDOW = 100 * MSEC
IDLE_CLASS_DELAY = 200 * MSEC
SHORT_IDLE = 2 * MSEC
RAISED_IDLE = 20 * MSEC

# low latency
RAISE, RAISE_SOFT_RT = 30, 3000
SOFT_RT_PERIOD = 300 * MSEC
MIN_IDLE_FOR_RAISING = 2 * SEC
ASYNC_INTER_ARRIVAL = 500 * MSEC
SOFT_RT_RATE = 7000  # sectors/s
MAX_RAISED_SERVICE = 120_000  # sectors
BURST_QUEUES = 8
BURST_WINDOW = 180 * MSEC
BURST_MEMORY = 10 * SEC
AFTER_SPLIT = 2 * SEC
STABLE_MERGE_WINDOW = 180 * MSEC
STABLE_MERGE_RENEWAL = 600 * MSEC

# peak rate: sectors/us in 16 bits of fraction
RATE_SHIFT = 16
REFERENCE_RATE_ROTATIONAL, REFERENCE_RATE_FLASH = 14000, 33000
REFERENCE_TIME_ROTATIONAL, REFERENCE_TIME_FLASH = 7 * SEC, 5 * SEC // 2
RATE_SAMPLES = 32
RATE_MIN_WINDOW = 300 * MSEC
RATE_WINDOW = SEC
RATE_GAP = 100 * MSEC
RATE_BUSY_GAP = 2 * MSEC
RATE_LIMIT = 20 << RATE_SHIFT

LONG_AGO = -(1 << 60)
INJECTION_RENEWAL = SEC

FEATURES = (
    "groups_rule burst_no_plug raised_rule classes_matter lightest_exempt only_busy_idles raised_idle hw_threshold "
    "hw_patient injection base_in_driver flip_resets inject_pause late_inject update_base think_early think_idle "
    "think_divisor io_time preempt_rule residual_left async_fair eqm_flash_off eqm_in_service keep_empty "
    "seeky_never_soft soft_rt_kept raise_default_only burst_alone stable_merge refs_matter polled"
)
WAKER_COLUMNS = (
    "wk_detect wk_window wk_long_think wk_needed wk_select wk_woken wk_timeout wk_arrival wk_challenge wk_unshared "
    "wk_direct wk_replace"
)
DEVICE_COLUMNS = columns(
    "slice_idle timeout_sync user_max_budget strict low_latency fifo_sync fifo_async back_seek_max back_seek_penalty "
    "jiffy root in_service active dispatch_list busy busy_be busy_rt busy_idle raised_busy queued in_driver "
    "max_in_driver hw_tag hw_samples ncq_flash last_position in_serv_last_pos last_completion last_completed "
    "max_budget budgets_assigned last_budget_start last_idling_start idle_class_at "
    "rate rate_samples rate_sectors rate_sequential rate_first rate_last_dispatch rate_biggest "
    "wait_dispatch waited_rq injected arrived_empty "
    "burst burst_size burst_at burst_group large_burst " + FEATURES + " " + WAKER_COLUMNS
)
GROUP_COLUMNS = columns("parent serving last_created last_created_at")
TREE_COLUMNS = columns("vtime weights active idle")
ENTITY_COLUMNS = columns("group tree counted weight base_weight coeff budget service start finish")
CONTEXT_COLUMNS = columns("queue home")
ASYNC_COLUMNS = columns("queue")
QUEUE_COLUMNS = columns(
    "used dev group sync task ioprio ioclass sorted fifo next_rq queued allocated dispatched busy wait_request "
    "residual candidate max_budget fifo_checked last_pos seek_history io_bound timely io_start tot_idle short_think "
    "samples total_think mean_think last_end inject_limit last_serv decreased_at injected_service waker tentative "
    "detections detection_start woken refs coop split_coop merge_into stable created fresh burst in_large_burst "
    "split_at budget_timeout coeff raised_at raised_for raised_before soft_next soft_update idle_backlogged "
    "service_backlogged service_raised first_io"
)
