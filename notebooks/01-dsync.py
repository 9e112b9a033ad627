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
# # 1. Why does `dd` crawl at 60 KB/s?
#
# In May 2019 Srivatsa S. Bhat wrote to the kernel's mailing lists. On a virtual machine with Linux 4.19 he had run
#
#     dd if=/dev/zero of=/root/test.img bs=512 count=10000 oflag=dsync
#
# | I/O scheduler | throughput |
# |---|---|
# | CFQ | **60 KB/s** |
# | noop or deadline | **1.5 – 2 MB/s** |
#
# The same disk, the same file system, the same command: a factor of 25 to 33. `oflag=dsync` makes every write of
# 512 bytes wait until it is durable. Nothing else runs on the machine. Where do the eight milliseconds of each
# write go?
#
# In this notebook we build that machine as a model, find out, and hold the model against real kernels.

# %%
import iosched as io
from iosched import plots, threads, widgets
from iosched.threads import dsync

# %% [markdown]
# ## Predict first
#
# Take a disk that needs about 0.09 ms for a request. One durable write on ext4 is three requests, one after the
# other. **How long will a write take under noop?** A wrong number teaches more than none.

# %%
guess = widgets.predict("How long does one write take under noop?", "ms")
guess

# %% [markdown]
# ## The machine
#
# The completion time of the thread's disk is not known. It is the one thing that we *fit*: on the figure for noop
# alone, the middle of 1.5 to 2 MB/s. All the rest below is *predicted*.

# %%
vm = dsync.machine("vm-4.19")
vm

# %% [markdown]
# `dd` runs in the cgroup `user.slice`, where systemd puts what a user starts. The journal thread of ext4, `jbd2`,
# is a kernel thread and stays in the root cgroup. (A thousand writes tell the rate of ten thousand.)

# %%
job = io.workloads.dd(bs=512, count=1000, oflag="dsync", cgroup="user.slice")
noop = io.simulate(vm, job, trace=True)
noop

# %%
guess.reveal(noop.time_per_op * 1e3)

# %% [markdown]
# Now nothing is changed but the scheduler. What do you expect?

# %%
guess_cfq = widgets.predict("And how many kB/s will dd report under CFQ?", "kB/s")
guess_cfq

# %%
cfq_vm = vm.with_(scheduler="cfq")
cfq = io.simulate(cfq_vm, job, trace=True)
cfq

# %%
guess_cfq.reveal(cfq.bytes_per_s / 1e3)

# %% [markdown]
# ## Where the time goes
#
# The device is busy for the same time as before. The rest is *idling*: requests wait, the device has nothing to do,
# and the scheduler keeps it so. The diamonds are the published figures (60 KB/s, with K read as 1000 or as 1024).

# %%
published = {"noop": (512 / 2e6, 512 / 1.5e6), "cfq": (512 / 61_440, 512 / 60_000)}
plots.time_budget({"noop": noop, "cfq": cfq}, published=published)

# %% [markdown]
# ## One write, looked at closely
#
# Who holds the device when, and for whom is it kept idle? First noop:

# %%
noop.timeline()

# %% [markdown]
# dd writes its page. When that is done it wakes jbd2, which writes the log (the descriptor and the inode's block,
# merged into one request), and when that is done the commit block. Then dd's write is durable and dd may go on.
# Three requests, strictly one after the other. Now CFQ:

# %%
cfq.timeline()

# %% [markdown]
# dd's request is there from the beginning, and the device is free. But CFQ has just served jbd2 and keeps the
# device for it: perhaps jbd2 has another request near the last one, and on a disk a little patience saves a seek.
# So it waits for `slice_idle` = 8 ms. jbd2 cannot send anything: **it waits for dd, and dd waits for the scheduler,
# which waits for jbd2.**
#
# Only when the timer fires is dd served.

# %%
cfq.idling

# %% [markdown]
# ## The group rule: why one wait and not two
#
# A write has two switches, from dd to jbd2 and from jbd2 to dd, but only one of them is paid for. Look at the
# table: the windows opened for dd nearly always end early. A request may preempt the queue that is being waited for
# if its cgroup is the same as that queue's, *or an ancestor of it*. jbd2 lives in the root, the ancestor of every
# cgroup: it may preempt dd at once. dd may not preempt jbd2.
#
# Kernels before 4.6 asked for the *same* cgroup. What does that cost?

# %%
io.sweep(cfq_vm, job, over={"kernel": ["4.4", "4.19"], "scheduler": ["noop", "cfq"]})

# %% [markdown]
# And if dd and jbd2 live elsewhere? (On a real system jbd2 cannot be moved; in a model it can.)

# %%
groups = ["/", "system.slice", "user.slice"]
io.sweep(cfq_vm, job, over={"dd.cgroup": groups, "filesystem.jbd2_cgroup": groups})

# %% [markdown]
# The same cgroup: no wait. One above the other: one wait a write, whoever is above. Neither above the other: two.
#
# Where dd is waited for it is 0.9 and not 1: dd sends one request a write, so the mean of its think times creeps
# above 8 ms, CFQ finds it not worth waiting and skips about one window in ten. jbd2 sends two, one of them at once,
# which keeps its mean low for ever.

# %% [markdown]
# ## Turn the knobs
#
# The sliders wait for your prediction. Then find out: which knobs cure the problem, and which do nothing? Try
# `slice_idle` = 0. Try a write cache. Try a drive that does not rotate. The grey curve is the one before your last
# turn.

# %%
explorer = widgets.dsync_explorer("thread 0 VM 4.19")
explorer

# %% [markdown]
# ## `slice_idle` and `group_idle` together
#
# The thread says: full speed with both at zero. And with one of them? Here are all 289 combinations; the marks are
# the two settings that were published.

# %%
grid = io.sweep(cfq_vm, job, over={"scheduler.slice_idle": range(17), "scheduler.group_idle": range(17)})
plots.grid_heatmap(grid, published={(8, 8): published["cfq"], (0, 0): published["noop"]})

# %% [markdown]
# While `slice_idle` is above 0 (and longer than the few microseconds in which the next request is made) it alone sets
# the wait, so `group_idle` changes nothing. With `slice_idle` = 0 CFQ
# falls back on `group_idle`: the first column. **Zero is not a very short wait, it is another rule.** That is why
# neither knob helps alone, and why a solid-state drive, where `slice_idle` begins at 0, suffers just as much.

# %% [markdown]
# ## Four preconditions
#
# The thread names four things that must come together. Switch them off in all sixteen combinations:

# %%
dsync.preconditions("vm-4.19")

# %% [markdown]
# One line of sixteen is slow: the one in which all four hold.

# %% [markdown]
# ## The same by a formula
#
# Nothing in this cycle is random, so a formula can say it too:
#
# *time of a write = device + host + (switches in which the newcomer may not preempt) × idle*
#
# The line is that closed form, which knows no events and no requests; the dots are the simulator.

# %%
curve = io.sweep(cfq_vm, job, over={"scheduler.slice_idle": range(17)}, closed_form=True)
plots.knob_curve(
    curve, "scheduler.slice_idle", published={"published, CFQ": (60e3, 61_440), "published, noop": (1.5e6, 2e6)}
)

# %% [markdown]
# ## And real kernels?
#
# The model would be worth little if it agreed with the thread alone. Linux 4.19 was booted on devices of exactly
# known speed, with the schedulers, idle times, cgroups and file systems of this notebook. CPU costs are fitted on
# the rows without a scheduler; the rest is predicted.

# %%
from iosched.data import data_file
from iosched.validate import in_scope, validate_kernel

table = data_file("kernel/dd.csv")
real = validate_kernel(table, keep=lambda run: in_scope(run) and run.conditions["kernel"].startswith("4.19"))
plots.validation_scatter(real.frame())

# %% [markdown]
# ## Every claim of the thread
#
# Hollow dots set a parameter, full ones are predictions. Rings are figures that the model misses: they stay in.

# %%
outcomes = threads.reproduce("dsync")
plots.reproduction(threads.table(outcomes), "Thread 0: published and modelled")

# %%
threads.table(outcomes)[["id", "statement", "published", "simulated", "real_kernel", "ratio", "role", "verdict"]]

# %% [markdown]
# ## What happened
#
# 1. `dsync` makes dd wait for jbd2 after every 512 bytes, and jbd2 wait for dd before the next commit.
# 2. CFQ thinks in queues: it waits for the queue that it has just served, 8 ms, in the hope of another request.
# 3. For two processes that wait for *each other* this hope is always in vain. Inside one cgroup CFQ knows the case and
#    lets the newcomer preempt. Between cgroups it may not: fairness between groups comes first.
# 4. Docker switches the blkio controller on; systemd then puts dd into `user.slice`, and jbd2 stays in the root. With
#    ext4 and CFQ's defaults all four preconditions are there, and nobody chose any of them.
#
# A scheduler that cannot see who waits for whom pays 8 ms to learn it, at every write, and forgets it again.

# %% [markdown]
# ## Exercises

# %%
widgets.dsync_exercise(1)

# %%
widgets.dsync_exercise(2)

# %%
widgets.dsync_exercise(3)

# %%
widgets.dsync_exercise(4)
