"""The columns of every table of a run. One row is one thing; integers only: ns, 512-byte sectors, and links (-1: none).

Names that a plain NumPy record already uses for itself (flags, size, mean, device, ...) are avoided, so that the engine
also runs without Numba.
"""

from __future__ import annotations

import numpy as np

from ..schedulers import anticipatory, bfq_tables, cfq_state, deadline, kyber
from .columns import columns

SIM = columns(
    "cpu_ns io_waiters io_wait_since io_wait_ns "
    "now epoch seq heap_n events live error cpus wakeup_ns request_ns free_request free_bio requests_made trace_on "
    "trace_n trace_rows trace_margin n_devices n_tasks n_requests n_groups n_timers n_cfq_queues n_bfq_queues "
    "n_bfq_groups first_bfq_node first_task_node tick_ns n_files queue_plugs scheduler_ns lock_ns spread generator "
    "fair fair_cpus first_cpu_timer runnable least_vruntime"
)
DEVICE = columns(
    "sectors_in_read read_merges read_sojourn_ns write_sojourn_ns "
    "scheduler legacy asynchronous_run servers depth completion_ns sector_ps flush_ns write_cache fua rotational "
    "max_sectors nr_requests queue_tags hardware_queues tags_used in_flight busy_servers in_system queued run_pending "
    "flush_pending_index "
    "flush_running flush_data flush_at_once flush_pending_since fifo dispatch_list server_queue waiters "
    "flush_pending0 flush_pending1 flush_served wbt io_latency latency_timer io_max io_cost locked_until accounted_at "
    "idle_row idle_since disk ssd flush_exclusive exclusive parked queue_plugs plugged kicked unplug_at unplug_armed "
    "head_at generator write_ps reads_first scsi "
    "area_in_system busy_ns held_ns empty_ns served_ns sojourn_ns arrived completed merges "
    "flushes sectors_in sectors_out sectors_read sectors_written read_requests write_requests "
    "ticked_area_in_system ticked_busy_ns ticked_sojourn_ns"
)
DISK = columns(
    "turn_ns drawn_delay generator settle_ns root_ns linear_ns heads head_switch_ns track_switch_ns zones_n "
    "sectors overlaps choice age_ns stream_ns stream_since read_grace_ns write_grace_ns write_ps copy_ps bus_ps ack_ns "
    "bus_free_at queue "
    "at_sector at_radius at_cylinder at_track stopped_at serving until look_at last_arrival "
    "cache_sectors held dirty waiting free_extent piece_sectors piece wrote_piece rank quiet_ns flush "
    "patience_ns commands_since "
    "segments_n segment_sectors ahead ahead_from ahead_at ahead_to uses taken written overwritten destage_ns hits"
)
SSD = columns(
    "link_ps cold_ps link_free_at ack_ns program_ns piece_sectors buffer_sectors held unprogrammed programming taken "
    "programmed first_die next_die streams uses flush flushing waiting stalled"
)
DIE = columns("dev free_at sectors")
ZONE = columns("first sectors track_sectors sector_ps unwound radius radius_span cylinder")
COMMAND = columns("start stop zone cylinder track radius angle ready")
EXTENT = columns("end next")
SEGMENT = columns("first end used")
EVENT = columns("at seq kind index")
TIMER = columns("at seq")
TASK = columns(
    "in_io_wait "
    "pc state outstanding group dev file journal plugged plug_list left ioprio ioclass op_start done_ops done_bytes "
    "latency_sum latency_max latency_min end step first_step n_steps counting_from stop_at first_second n_seconds "
    "stream slot awaited climb asked_at writing copying copied_free dirtied dirty_share paused_at "
    "cleaning flusher wbt_place owed need nap queued computing vruntime wbt_flags batch_left batch_until "
    "ioc team piece read_at read_to window paid sent_to send_to marker reading waited "
    "gate gate_nr cost cost_paid tag_asked_at "
    "ordered"
)
OP = columns("code a b")
STEP = columns("dirty counted operations rewrite sets_time")
FILE = columns(
    "first extent stride position dirty_from dirty_to mapped_to cached_to direct_left journal metadata created tid "
    "last_from tick changed size_limit length dirtied taken cleaned dirty_since turn flusher waiter awaited ordered "
    "delayed place room "
    "ordered_tid"
)
JOURNAL = columns(
    "first sectors head running committing committed requested mask inodes others blocks sent commits task waiters "
    "interval timer ordered_left allocated window logging writers"
)
REQUEST = columns(
    "serial dev task op sector nr cmd_flags bios last_bio queue steps start issued earliest data_done shares_flush "
    "fifo_time elevator pool wbt state"
)
BIO = columns("task sector nr start next slot tracked file page")
STREAM = columns(
    "random pages grain step length generator interval due first_slot depth busy free finished copy_ns ahead_ns "
    "allocated reading left begin end sent marker window nrfiles next_file more_files"
)
TEAM = columns(
    "first_task n_tasks piece_bytes length pieces next fixed idle newest_first begin interval "
    "client sent asked replied consumed ahead burst slots send_ns send_free link_ns delay_ns link_free link_head "
    "link_tail end over "
    "first_page first_piece pages context layout disks stripe_sectors bio_sectors copy_ns ahead_ns bio_ns bytes"
)
PIECE_READ = columns("at next done")
WINDOW = columns("begin end marker prev")
SLOT = columns("task left start next end")
CACHE = columns(
    "dirty writeback dirtied written background limit expire interval bio_pages dirty_ns clean_ns written_ns "
    "flushers ratelimit balanced bandwidth average updated_at dirtied_before "
    "written_before slept_at pauses paused_ns"
)
FLUSHER = columns("task dev file left paid turns timer periodic")
WBT = columns(
    "target window step scaled_max queue_depth max_depth normal background inflight unknown timer waiters oldest_read "
    "oldest_issued last_read reads shortest_read writes windows exceeded throttled"
)
LATENCY = columns(
    "target window depth inflight waiters seen use_delay delay window_start total missed elapsed all_total all_missed "
    "all_elapsed samples cookie scale_group scale_latency changed_at children_samples"
)
LIMIT = columns("bps iops start bytes ios charged_at waiters timer")
IOCOST = columns(
    "model vrate vrate_min vrate_max vbase vbase_at ticking busy_level rlat wlat rpct wpct reads reads_late writes "
    "writes_late waited misfits_since"
)
COST_MODEL = columns("read_page read_seq read_rand write_page write_seq write_rand period faster slower")
SHARE = columns("weight inuse children active vtime used ios short last_end waiters timer")
NODE = columns("prev next list key")
LIST = columns("head tail count")
GROUP = columns("parent")
POOL = columns("sync asynchronous waiters_sync waiters_async")
IDLE = columns("windows total_ns held_ns empty_ns fired fired_held")
COUNT = columns("n")
PROCESSOR = columns("free_at background running since ran gives_way deciding interrupted_until")
TRACE = columns("at kind task request place length cmd_flags dev")

# every table of a State, in the order in which compiled code finds their addresses
TABLES: dict[str, np.dtype] = {
    "sim": SIM,
    "devices": DEVICE,
    "disks": DISK,
    "ssds": SSD,
    "dies": DIE,
    "zones": ZONE,
    "commands": COMMAND,
    "extents": EXTENT,
    "segments": SEGMENT,
    "heap": EVENT,
    "timers": TIMER,
    "tasks": TASK,
    "ops": OP,
    "steps": STEP,
    "seconds": COUNT,
    "files": FILE,
    "journals": JOURNAL,
    "requests": REQUEST,
    "bios": BIO,
    "nodes": NODE,
    "lists": LIST,
    "streams": STREAM,
    "slots": SLOT,
    "teams": TEAM,
    "pieces": PIECE_READ,
    "windows": WINDOW,
    "pages": COUNT,
    "groups": GROUP,
    "latency": LATENCY,
    "limits": LIMIT,
    "iocost": IOCOST,
    "cost_models": COST_MODEL,
    "shares": SHARE,
    "hardware_queues": COUNT,
    "caches": CACHE,
    "flushers": FLUSHER,
    "wbt": WBT,
    "pools": POOL,
    "idle": IDLE,
    "histogram": COUNT,
    "processors": PROCESSOR,
    "trace": TRACE,
    "deadline": deadline.DEVICE_COLUMNS,
    "deadline_class": deadline.CLASS_COLUMNS,
    "kyber": kyber.DEVICE_COLUMNS,
    "kyber_domains": kyber.DOMAIN_COLUMNS,
    "kyber_histograms": kyber.HISTOGRAM_COLUMNS,
    "kyber_buckets": kyber.BUCKET_COLUMNS,
    "anticipatory": anticipatory.DEVICE_COLUMNS,
    "antic_contexts": anticipatory.CONTEXT_COLUMNS,
    "cfq": cfq_state.DEVICE_COLUMNS,
    "cfq_groups": cfq_state.GROUP_COLUMNS,
    "cfq_trees": cfq_state.TREE_COLUMNS,
    "cfq_contexts": cfq_state.CONTEXT_COLUMNS,
    "cfq_queues": cfq_state.QUEUE_COLUMNS,
    "cfq_async": cfq_state.ASYNC_COLUMNS,
    "bfq": bfq_tables.DEVICE_COLUMNS,
    "bfq_groups": bfq_tables.GROUP_COLUMNS,
    "bfq_trees": bfq_tables.TREE_COLUMNS,
    "bfq_entities": bfq_tables.ENTITY_COLUMNS,
    "bfq_contexts": bfq_tables.CONTEXT_COLUMNS,
    "bfq_queues": bfq_tables.QUEUE_COLUMNS,
    "bfq_async": bfq_tables.ASYNC_COLUMNS,
}
