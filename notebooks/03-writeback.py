# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %%

# %% [markdown]
# # 3. Who gets the disk? A reader beside a copy
#
# Somebody copies a large file, and the desktop stands still until the copy is done. In 2016 the letters that brought
# *writeback throttling* (WBT) into Linux described it, with a vmstat in which a reader gets less than 4 MB/s beside a
# writer with more than 70. In November 2018 the owner of an ordinary laptop asked two questions about it:
#
# 1. How can I **reproduce** this on a given system, and get a rough number that says whether it is a problem there?
# 2. If I suspect it, what do I have to **measure**?
#
# and answered the first with a script: 1 GiB is read in sequence while 50 files of 100 MiB are written through the page
# cache. This is what came out (MB/s, all under CFQ with its defaults):
#
# | disk | reader | writer |
# |---|---|---|
# | WD Black Mobile, 7200 rpm, NCQ depth 32, kernel 4.18 | 10 to 20 | 50 to 60 |
# | Seagate, 5400 rpm, NCQ depth 31, kernel 4.9 | 80 | 0 for most of the time |
# | Crucial M4, an SSD, in the second system | 50 to 60 (alone: 500) | 130 (alone: 200) |
#
# The same test, the same scheduler, and three different stories: the reader squeezed, the writer starved, the reader
# squeezed again. Let us see how far a model of the two systems gets.

# %%
from iosched import plots, threads, widgets
from iosched.threads import mixes
from iosched.threads import writeback as thread

# %% [markdown]
# ## Predict first
#
# The 7200 rpm disk reads 112 MB/s where the file lies, and writes as fast. CFQ means *completely fair queueing*. Two
# processes want the disk. How much will the reader get?

# %%
guess = widgets.predict("How many MB/s does the reader get beside the writer, under CFQ?", "MB/s")
guess

# %% [markdown]
# ## The machine and the script
#
# Only idle figures set the disk's rate, the SSD's and the speed of the processor. (Two constants of a disk's firmware
# and the size of the page cache, which no idle figure shows, were chosen with a loaded result each in view; the table
# at the end says which.) `watch` runs the
# script and looks at the disk as `vmstat 1` does: `read_MBs` is vmstat's bi, `written_MBs` its bo.

# %%
system = thread.machine("wd")
jobs = [thread.reader("user.slice"), thread.writer("user.slice")]
mix = mixes.watch(system, jobs, step_s=1.0, until_s=10.0)
mix.seconds.round(1)

# %%
guess.reveal(thread.reader_MBs("wd", "cfq"))

# %% [markdown]
# The answer to the first question is this table: **run the script, and look at vmstat's bi and bo while both run.** The
# number to quote is what the reader gets beside the writer, as a part of what it gets alone. One run is not the next:
# who has whose turn when is chaotic, so the model's figures below are means over five starts, and yours should be too.

# %% [markdown]
# ## Where does the reader's time go?
#
# The reader asks for 4 KiB, but the kernel reads ahead, 256 KiB at a time. So 63 of 64 reads find their page in memory,
# and fio's latencies show one slow read a window: 1.56 % of them. Diamonds are the laptop's, bars the model's.

# %%
runs = {"idle": "idle read", "beside the writer, CFQ": "cfq"}
modelled = {name: thread.modelled_buckets("wd", run) for name, run in runs.items()}
plots.latency_buckets(modelled, {name: thread.published_buckets(run) for name, run in runs.items()})

# %% [markdown]
# Idle, a window takes 2 ms and a little, and that is all. Beside the writer, *most reads are as fast as before*. What
# costs the time is one read in a thousand that takes a tenth of a second or more. **A mean latency hides it, and so
# does a median. Look at the tail**: that is half of the answer to the second question.
#
# What happens in such a long wait?
#
# * CFQ gives the writer a turn: sixteen large requests, 11 MB. The disk takes them into its write cache within 20 ms
#   and says that they are done. **The disk has a tenth of a second of work before it, and CFQ does not know.**
# * Then the reader has its turn. For a moment the disk serves it; then it turns to its cache, and the reader waits, in
#   its own turn, for writes that the scheduler believes to be over.
#
# So it is the disk that takes the turn away from the reader. The cure should be to forbid it to lie:

# %%
plots.shares(thread.table(), "Thread 3: reader beside writer")

# %% [markdown]
# * **Without the write cache** (`hdparm -W0`) a write is done when it is done, CFQ sees what the writer costs, and the
#   balance is "more plausible", as the laptop's owner found.
# * **deadline** knows reads from writes, and not who waits for what. The writer fills the disk's queue and its cache.
# * **WBT** looks at how long reads take, and holds the writer back *before* the scheduler. With the cache on it has to
#   fight against 32 MB that it does not see; with the cache off it works as promised: the model's reader gets 62 MB/s,
#   the laptop's 60.
# * **CFQ and BFQ switch WBT off.** The default scheduler of 2018 and the patches that cured the problem did not meet.
#
# ## Turn the knobs
#
# The preset is the 7200 rpm disk under CFQ. Give your prediction; then try, going back to the preset in between:
#
# 1. `write_cache` off. Then `scheduler`: deadline, and `wbt_lat_usec`: 75000.
# 2. `queue_depth` = 1: "NCQ is the problem". Is it?
# 3. `dirty_background_ratio` and `dirty_ratio`: the usual advice. What do they change, and what not?
# 4. `disk`: Seagate. Then `cgroup of the jobs`: user.slice. And the WD in the root cgroup?

# %%
explorer = widgets.writeback_explorer()
explorer

# %% [markdown]
# ## The riddle of the two disks
#
# Is the Seagate so different? Turn 4 says: no. In the **root cgroup** the flusher's queue and the reader's stand in one
# group. CFQ lets no buffered write go while a read is in the disk, and a read that comes preempts the writer at once. A
# reader with two windows in flight never leaves a gap. When its slice ends, it has asked again before the writer was
# served, nearly always: "literally 0 writes for most (although not all) of the time".
#
# Where the blkio controller is in use (Docker or libvirt switch it on; notebook 1 has another of its effects), the
# reader is in *user.slice*, the flusher in the root, and the two **groups** take turns. That is the laptop whose owner
# copies the disks of virtual machines. We infer it; the thread does not say it. Here are both disks in both places:

# %%
places = {name: [thread.reader(name), thread.writer(name)] for name in ("user.slice", "/")}
both = {(disk, name): mixes.watch(thread.machine(disk), places[name]) for disk in ("wd", "seagate") for name in places}
{key: (round(m.reader_MBs), round(m.writer_MBs)) for key, m in both.items()}  # reader, writer (MB/s)

# %% [markdown]
# The SSD is a third case. Its reader needs the processor for about as long as the SSD needs for a window. If it keeps
# up, there is always a read in flight, and the writer starves as on the Seagate; if it falls behind by a little, there
# are gaps, the writer's requests get in, and the reader waits behind them from then on. One number decides between the
# two, and the model's SSD sits just beside the edge:

# %%
rates = {speed: thread.machine("m4").with_(**{"host.speed": speed}) for speed in (0.75, 0.83, 0.87, 1.0)}
at_speed = {speed: mixes.watch(machine, places["/"]) for speed, machine in rates.items()}
{speed: (round(m.reader_MBs), round(m.writer_MBs)) for speed, m in at_speed.items()}  # reader, writer (MB/s)

# %% [markdown]
# ## What to measure
#
# The second question. In the order of how much each tells you:
#
# | look at | it is this problem if |
# |---|---|
# | `vmstat 1`: bi, bo, wa | bo is high, bi a small part of what the disk reads alone, as long as the copy runs |
# | the *histogram* of read latencies (fio's) | the median is as idle, a tenth of a percent takes 100 ms and more |
# | `/proc/meminfo`: Dirty, Writeback | Dirty stands at the limit: the copy is held, the flusher never rests |
# | `iostat -x 1`: r_await, w_await, aqu-sz | r_await many times its idle value, %util at 100 |
# | `queue/scheduler`, `queue/wbt_lat_usec`, `hdparm -W` | CFQ or BFQ (no WBT), or WBT with a write cache behind it |
#
# `Result.writeback` has what the kernel keeps for itself: how often WBT's target was missed, and how deep it went.

# %%
held = thread.runs("wd", "deadline, wbt 75000")[0].result
held.writeback.T.rename(columns={0: "deadline, WBT 75 ms, write cache on"})

# %% [markdown]
# More than half of WBT's windows missed the target, and the writer was held for most of the time. Still it cannot take
# back what is in the disk's cache.
#
# ## Every claim of the thread
#
# Hollow dots set a parameter, full ones are predictions, rings are figures that the model misses; the reasons stand in
# the table. The largest: BFQ (in user.slice the model gives the reader 80 MB/s, in the root cgroup 54; published are
# 40), the start of chrome, and the reader on the SSD.

# %%
outcomes = threads.reproduce("writeback")
plots.reproduction(threads.table(outcomes), "Thread 3: published and modelled", allowed=0.25)

# %%
threads.table(outcomes)[["id", "statement", "published", "simulated", "ratio", "role", "verdict", "reason"]]

# %% [markdown]
# ## What happened
#
# 1. Buffered writes reach the disk in bursts of large requests, sent by the flusher in nobody's name.
# 2. A write cache makes them look cheap. A scheduler that shares *time* shares the wrong thing; the disk writes
#    in somebody else's turn.
# 3. WBT measures what counts, the latency of reads. It needs a scheduler that does not do the same job in another way,
#    and a disk that does not hide its writes.
# 4. Whether a reader starves or a writer depends on who is in which cgroup, and on whether there is a gap between two
#    reads: on things that no benchmark report mentions.
#
# ## Exercises

# %%
widgets.writeback_exercise(1)

# %%
widgets.writeback_exercise(2)

# %%
widgets.writeback_exercise(3)
