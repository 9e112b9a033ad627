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

# %% [markdown]
# # 5. Eight threads, one stream: NFS reads at 36 MB/s and at 89
#
# In November 2008 Vitaly V. Bursov copied a file of 2 GB from an NFS server with two disks, over gigabit Ethernet:
#
# | the server's scheduler | dd on the client |
# |---|---|
# | CFQ | **36.4 MB/s** |
# | deadline | **88.6 MB/s** |
# | CFQ with the "cooperator" patch | **84.2 MB/s** |
# | CFQ with `CLONE_IO` for kernel threads, another idea | **36.4 MB/s** |
# | the file is in the server's memory | 95.4 MB/s |
#
# dd reads *one file from beginning to end*. There is nothing easier for a disk, and nothing that a scheduler could
# order. What does CFQ do to it? Why does one patch cure it, and the other change nothing at all?

# %%
import iosched as io
from iosched import plots, threads, widgets
from iosched.queueing import cooperating
from iosched.threads import nfs

# %% [markdown]
# ## Predict first
#
# The client asks for 21 pieces of 128 KiB at once. Eight threads of the server, `nfsd`, take one piece each, then the
# rest. CFQ of the time knows each thread as a process of its own, and after each it waits for one timer tick of 10 ms,
# in case *that thread* wants more. Suppose seven of those waits are in vain in each burst. **How many MB/s are that?**

# %%
guess = widgets.predict("21 pieces of 128 KiB, and seven waits of 10 ms: how many MB/s?", "MB/s")
guess

# %% [markdown]
# ## Who is served when
#
# This is a tenth of a second of the server's first disk, under CFQ and under deadline. A lane a thread. Hatched: for
# whom the disk is kept idle, red if that lasts until the timer fires.

# %%
plots.interleaving(nfs.traced("cfq", "deadline"), seconds=0.1)

# %% [markdown]
# Under CFQ the next piece of the file *is there*. It lies right behind the one that was just read, and it waits (pale)
# in the queue of another thread, while the disk is kept for a thread that has nothing to ask for. Then the timer fires.
#
# CFQ knows this trap, and has a rule for it: a request of another process that is close to the head may take the disk
# away from the one that is waited for. But the rule is only asked *when a request arrives while CFQ waits*. Here the
# request had arrived before. Nobody asks again.

# %%
guess.reveal(cooperating(*nfs.scenario("cfq")).bytes_per_s / 1e6)

# %% [markdown]
# ## Why smooth arrivals lose nothing
#
# If the pieces are asked for one by one, as fast as the network carries them, each finds CFQ waiting, and takes the
# disk. The burst is what hurts. The more pieces at once, the more of them each wait pays for; the fewer threads, the
# fewer switches:

# %%
vm, job = nfs.machine(), nfs.job(size=200 * 2**20, ahead=1)
over = {"job.threads": [1, 2, 4, 8], "job.burst": [1, 2, 4, 8, 15, 21, 32]}
curve = io.sweep(vm, job, over=over)
plots.knob_curve(curve, "job.burst", hue="job.threads", published=nfs.published()["cfq"])

# %% [markdown]
# ## The tick
#
# A kernel of that time counts in timer ticks. With `HZ=100` a tick is 10 ms, and `slice_idle`, meant to be 8 ms, is
# one tick. With `HZ=1000` it is 8 ticks of 1 ms.

# %%
over = {"host.hz": [100, 250, 1000], "scheduler.slice_idle": [0, 1, 2, 4, 6, 8, 10, 12, 16]}
ticks = io.sweep(nfs.cfq(), job, over=over)
plots.knob_curve(ticks, "scheduler.slice_idle", hue="host.hz", published=nfs.published()["cfq"])

# %% [markdown]
# ## Turn the knobs
#
# 1. Threads from 8 down to 1.
# 2. `cooperators` "first": the patch of the thread. What is the disk kept idle for now?
# 3. One io_context instead: all threads feed one queue.
# 4. "a piece at a time"; then HZ=1000.
# 5. `cooperators` "close": what 2.6.30 got. Is it the cure?

# %%
explorer = widgets.nfs_explorer()
explorer

# %% [markdown]
# ## Two cures, and one that was none
#
# * The **cooperator patch** asks again: when a queue has run empty, is there another whose next request is where the
#   head is? Then that is next, and nothing is waited for. Diamonds are what the thread measured.
# * **One io_context** for all threads would make them one process for CFQ, and one queue.
# * `CLONE_IO` was meant to do just that, and did nothing. A thread that is cloned with it shares its *parent's*
#   io_context, **if the parent has one**. The parent of nfsd's threads, kthreadd, never reads anything.
# * **anticipatory**, the scheduler before CFQ, lets any close request end its waiting, whenever it came.
# * 2.6.32 **merges** the queues of such threads for good.

# %%
names = ("cfq", "clone_io", "cooperators", "both", "shared io_context", "merging queues", "anticipatory", "deadline")
plots.dd_rates(nfs.rates(*names), nfs.published(), nfs.forms("cfq", "deadline"))

# %% [markdown]
# ## The closed form
#
# With `a` pieces served between two waits, the rate is **`a` × piece / (slice_idle + `a` × service)**, or what the
# network carries, if that is less. Waits make the threads' think times long, and CFQ does not wait for a thread that
# thinks longer than `slice_idle` on average. With one piece a thread and burst that spares some of the waits. Here it
# spares none: a thread whose next piece is there at once counts as one that does not think at all, and all seven
# switches of a burst are waited out.

# %%
cooperating(*nfs.scenario("cfq")), cooperating(*nfs.scenario("deadline"))

# %% [markdown]
# ## Real kernels
#
# 4.19's CFQ merges such queues, as 2.6.32's did. Real 4.19 and 6.1 kernels read one file with one to eight processes,
# together and apart, on a disk model; cgroups of their own (which forbid the merging) bring the loss back.

# %%
from iosched.data import data_file
from iosched.validate import validate_kernel

real = validate_kernel(data_file("kernel/rrread.csv"), keep=lambda run: run.conditions["kernel"] == "4.19.44")
plots.validation_scatter(real.frame(), hue="scheduler", label="throughput of all readers (MB/s)")

# %% [markdown]
# ## Every claim of the thread
#
# dd's figures come out. Of iostat's rows the rates and the sizes of requests do, not all of the times: under CFQ the
# model's two disks stall together, where the thread's took turns, and with the patch its requests wait less. A single
# local dd, which lost an eighth under CFQ, loses nothing in the model.

# %%
outcomes = threads.reproduce("nfs")
plots.reproduction(threads.table(outcomes[9:29]), "Thread 4: dd")

# %%
threads.table(outcomes)[["id", "statement", "published", "simulated", "ratio", "role", "verdict"]]

# %% [markdown]
# The server's disks as `iostat -x` of the time shows them. Little's law holds in each row: r/s × await = avgqu-sz.

# %%
nfs.iostat_rows().round(2)

# %% [markdown]
# ## What happened
#
# 1. One stream, but several processes: whoever schedules by process sees eight readers with gaps.
# 2. Waiting for a process is right if its next request comes soon. Here it comes from another process, and is there.
# 3. A rule that is asked at the wrong moment is no rule. The cure was not a new number but a second place to ask.
# 4. A flag that says "share" shares only what there is to share.

# %% [markdown]
# ## Exercises

# %%
widgets.nfs_exercise(1)

# %%
widgets.nfs_exercise(2)

# %%
widgets.nfs_exercise(3)
