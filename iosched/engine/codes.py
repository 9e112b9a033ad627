"""The engine's vocabulary: small integers with names. Nothing else lives here."""

NONE = -1
SEC = 1_000_000_000
MSEC = 1_000_000
USEC = 1_000
NEVER = 1 << 62
PAGE = 4096
PAGE_SECTORS = 8

# request operations
READ, WRITE, FLUSH = 0, 1, 2

# request flags (spec block-layer section 0)
F_SYNC, F_IDLE, F_META, F_PRIO, F_BACKGROUND, F_PREFLUSH, F_FUA, F_RAHEAD = 1, 2, 4, 8, 16, 32, 64, 128

# where a request is
R_FREE, R_PLUGGED, R_QUEUED, R_DISPATCHED, R_ISSUED, R_FLUSHING, R_DONE = 0, 1, 2, 3, 4, 5, 6

# what a disk's arm does besides serving a request
PIECE = -2

# which command of those inside a disk comes next, and where destaging ranks among them
SHORTEST, NEAREST, IN_ORDER, STREAM = range(4)
CHOICES = ("shortest", "nearest", "order", "stream")
LAST, EQUAL, BEFORE, TURNS, PATIENT = range(5)
RANKS = ("last", "equal", "first", "turns", "patient")

# steps of a flush sequence (spec block-layer section 8)
STEP_PRE, STEP_DATA, STEP_POST = 1, 2, 4

# events in the heap
(
    EV_TASK,
    EV_COMPLETE,
    EV_RUN,
    EV_LATENCY,
    EV_DISK,
    EV_FLUSHER,
    EV_COMMIT,
    EV_WBT,
    EV_REPLY,
    EV_UNPLUG,
    EV_READ,
    EV_PROGRAMMED,
    EV_LIMIT,
    EV_COST,
    EV_PERIOD,
) = range(15)

# timers, one row a (device, kind)
T_IDLE = 0
TIMERS_PER_DEVICE = 1

# what a task is doing
(
    T_READY,
    T_WAIT_IO,
    T_WAIT_COMMIT,
    T_SLEEP,
    T_WAIT_TAG,
    T_DONE,
    T_YIELDED,
    T_WAIT_SLOT,
    T_WAIT_PAGES,
    T_WAIT_READ,
    T_WAIT_WORK,
) = range(11)

# operations of a task's program (engine/tasks.py)
(
    OP_CPU,
    OP_START,
    OP_BUFFERED_WRITE,
    OP_READ_PAGE,
    OP_PLUG,
    OP_UNPLUG,
    OP_WRITE_PAGES,
    OP_DIRECT_WRITE,
    OP_WAIT,
    OP_FLUSH,
    OP_COMMIT,
    OP_LOG_SLEEP,
    OP_LOG_TAKE,
    OP_LOG_BLOCKS,
    OP_LOG_COMMIT_BLOCK,
    OP_LOG_DONE,
    OP_LOG_WRITE,
    OP_END,
    OP_LOOP,
    OP_JUMP,
    OP_EXIT,
    OP_READ_BLOCK,
    OP_NEXT_STEP,
    OP_STEP_WRITE,
    OP_SKIP_IF_CLEAN,
    OP_SKIP,
    OP_NEXT_IO,
    OP_DIRECT_READ,
    OP_BUFFERED_READ,
    OP_TAKE_SLOT,
    OP_SUBMITTED,
    OP_PAUSE,
    OP_SKIP_UNLESS_NTH,
    OP_CACHED_WRITE,
    OP_WRITEBACK,
    OP_SYNC_PAGES,
    OP_WAIT_PAGES,
    OP_LOG_ORDERED,
    OP_OWE,
    OP_TAKE_PIECE,
    OP_PIECE_READ,
    OP_PIECE_DIRECT,
    OP_REPLY,
) = range(43)

# metadata blocks of a running ext4 transaction that its files share, one bit each; their inode blocks are counted
META_BLOCK_BITMAP, META_GROUP_DESC, META_INODE_BITMAP, META_DIRECTORY = 1, 2, 4, 8

HISTOGRAM_BINS = 2304  # bins of a latency histogram (engine/tasks.py): up to 20 minutes

# schedulers
NOOP, NO_SCHEDULER, DEADLINE, MQ_DEADLINE, CFQ, BFQ, KYBER, OLD_CFQ, ANTICIPATORY = range(9)

# why the device is kept idle
IDLE_SLICE, IDLE_TREE, IDLE_GROUP, IDLE_SEEKY, IDLE_RAISED, IDLE_ANTIC = range(6)
IDLE_REASONS = (
    "slice_idle",
    "slice_idle (last queue of its service tree)",
    "group_idle",
    "2 ms (seeky queue)",
    "20 ms (weight-raised queue)",
    "antic_expire",
)
N_IDLE_REASONS = len(IDLE_REASONS)

# how an idle window ended
END_ARRIVAL, END_PREEMPTED, END_FIRED, END_EXPIRED = 0, 1, 2, 3
IDLE_ENDS = ("its request came", "preempted", "timer fired", "expired")

# trace events; the letters are those of blktrace where it has one
(
    TR_QUEUE,
    TR_GET,
    TR_MERGE,
    TR_PLUG,
    TR_UNPLUG,
    TR_INSERT,
    TR_ISSUE,
    TR_COMPLETE,
    TR_IDLE_BEGIN,
    TR_IDLE_END,
    TR_PREEMPT,
    TR_EXPIRE,
    TR_ACTIVE,
    TR_OP_START,
    TR_OP_END,
    TR_WAKE,
    TR_DEPTH,
) = range(17)
TRACE_LETTERS = (
    "Q",
    "G",
    "M",
    "P",
    "U",
    "I",
    "D",
    "C",
    "idle",
    "idle end",
    "preempt",
    "expire",
    "active",
    "op",
    "op end",
    "wake",
    "depth",
)

# what can go wrong inside a run; the text of each is in result.py
OK, E_DOUBLE_COMPLETION, E_EARLY_COMPLETION, E_DEPTH, E_FLUSH_ORDER, E_POOL, E_BAD_OP, E_TRACE = 0, 1, 2, 3, 4, 5, 6, 7

# why run() came back
STOP_DONE, STOP_TIME, STOP_BUDGET, STOP_TRACE_FULL, STOP_STUCK, STOP_ERROR = 0, 1, 2, 3, 4, 5
