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
# # 2. Who wakes whom? dbench at 80 MB/s and at 200
#
# In April 2020 Jan Kara wrote to the linux-block list. dbench, a benchmark that calls `fsync` all the time, ran much
# slower under BFQ than it used to under CFQ, even with a single client. Two small patches changed that:
#
# | kernel 5.6, BFQ, dbench with one client | throughput |
# |---|---|
# | as it is | about **80 MB/s** |
# | patch 1 alone | "not enough" |
# | patches 1 and 2 | about **200 MB/s** |
#
# Patch 1 changes one name in one condition. Patch 2 deletes one line. Both are about *wakers*. What is a waker, and
# why are two and a half times the throughput at stake?
#
# We build that machine as a model, look at one fsync under each version's rules, switch every rule by itself, and hold
# the answers against what was published and against real kernels.

# %%
import pandas as pd

import iosched as io
from iosched import plots, threads, widgets
from iosched.knobs import describe
from iosched.threads import dbench, wakers

# %% [markdown]
# ## Predict first
#
# dbench counts 448,057 bytes for each fsync: at 200 MB/s an fsync and all that lies before it take 2.24 ms. **How long
# is that at 80 MB/s?** And the timer with which BFQ waits for a process runs for 8 ms: guess what share of the fsyncs
# has to wait for it.

# %%
guess = widgets.predict("At 80 MB/s, how long does it take from one fsync to the next?", "ms")
guess

# %% [markdown]
# ## What a waker is
#
# This is one fsync, on the thread's machine, without any idling (`slice_idle` = 0). The completion time of its disk is
# the one thing that we *fit*, on the 200 MB/s; everything else in this notebook is *predicted*.

# %%
no_idling, job = dbench.scenario("bfq without idling")
plots.cooperation(io.simulate(no_idling, job, trace=True))

# %% [markdown]
# dbench writes its data and sleeps. The completion wakes jbd2, the journal thread, which writes the log and the commit
# block and sleeps. That completion wakes dbench. **A waker is a queue whose completed I/O lets another process send its
# next request**: jbd2 is the waker of dbench, and dbench that of jbd2.
#
# For a scheduler that waits for queues this is the worst case. While it keeps the device for dbench, dbench cannot
# send anything: it sleeps until *jbd2* is served. The request that must be served is the one that is held back.
#
# BFQ cannot see who sleeps on whom. It sees times: if a request comes to an empty queue right after another queue's
# request has completed, and if this happens again and again, the other queue is probably the waker.

# %% [markdown]
# ## The rules of each version
#
# The table is made of the very rules that the simulator runs. 5.2 and before know no wakers. "5.6.4+p1" has patch 1,
# "5.6.4+p1p2" both.

# %%
plots.rules(wakers.rules_of_versions())

# %%
pd.DataFrame(describe(io.WakerRules))[["name", "unit", "doc"]].style.hide()

# %% [markdown]
# Two cells of the table are the two patches:
#
# * **`selection`**. While BFQ waits for a queue, may its waker be served? 5.3 asks whether *the queue itself* has a
#   request. But it waits for it because it has none! The answer is always no: wakers are looked for, found, and never
#   served. Patch 1 asks the waker.
# * **`long_think_time`**. Only for a queue whose process pauses long is a waker looked for at all. jbd2 sends its log
#   and its commit block one right after the other, then sleeps: on average its pauses seem short. Patch 2 drops the
#   condition.
#
# 5.12 got patch 1, but not patch 2: it looks for the waker in a longer window, wants three detections, and measures
# the pauses better.

# %%
guess_now = widgets.predict("How many MB/s will the model say for 5.6.4, without the patches?", "MB/s")
guess_now

# %% [markdown]
# ## One fsync under each rule
#
# Only BFQ's version changes from picture to picture; disk, file system and dbench stay. Each is a typical fsync of the
# last seconds. Hatched: for whom the device is kept idle; red, if that lasts until the timer fires. Pale: a request
# waits in the scheduler. Framed in black: a request that is sent *although* the device is kept for another, injected.

# %%
versions = ["4.19", "5.6.4", "5.6.4+p1", "5.6.4+p1p2", "5.12"]
results = {version: wakers.under(version) for version in versions}
plots.timelines(results)

# %%
guess_now.reveal(results["5.6.4"].throughput_MBs)

# %% [markdown]
# * **4.19** waits twice: for jbd2, while dbench's data waits, then for dbench, while jbd2's log waits.
# * **5.6.4** waits for jbd2 until the timer fires, while dbench's next data waits in the scheduler, and jbd2 sleeps
#   until just that data is written. BFQ knows who wakes whom (the next cell says so). It makes no use of it.
# * **With patch 1** it would. But here BFQ has not found out that dbench is jbd2's waker: jbd2's pauses seem short, so
#   it is not looked for, and the picture is the same.
# * **With both patches** the device is kept for jbd2 as before. But the request of its waker, dbench, goes out into the
#   window at once.
# * **5.12** keeps the device for dbench for the whole fsync, and serves jbd2 within that. The window costs nothing.

# %%
pd.DataFrame({version: wakers.found_wakers(result) for version, result in results.items()}).T.fillna("not known")

# %% [markdown]
# ## Where the time of an fsync goes
#
# The diamonds are the published throughputs, as time from fsync to fsync: 5.60 and 2.24 ms.

# %%
times = wakers.published_times()
plots.time_budget(results, published={"5.6.4": times[0], "5.6.4+p1p2": times[1]})

# %%
guess.reveal(1e3 * wakers.FLUSH_BYTES / 80e6)

# %% [markdown]
# The difference, 3.36 ms, is less than one window of 8 ms: over the whole run **0.42 windows an fsync**, if all are of
# that length. The run is not the same from its first second to its last:

# %%
shown = {version: results[version] for version in ("5.6.4", "5.6.4+p1", "5.6.4+p1p2")}
plots.course(shown, published=wakers.published())

# %% [markdown]
# For the first seconds nothing is lost: `low_latency` raises the weight of both new queues, for a while. When jbd2's
# goes back to normal, in second 6, the loss begins. For four seconds 5.6.4 waits for dbench, which is still raised,
# 20 ms at a time; patch 1 spares it that, and nothing more. Then both wait for jbd2, and that state holds itself: the
# pauses of a queue are what BFQ decides by, and now its own idling makes them. **A benchmark of three seconds would
# have shown nothing.**

# %% [markdown]
# ## Turn the knobs
#
# Every waker rule is here, and `slice_idle`, `low_latency`, dbench's cgroup, the number of clients, the device and its
# NCQ depth. "BFQ of kernel" sets all rules to those of a version. Give your prediction first; then try, beginning at
# 5.6.4, always back to the preset in between:
#
# 1. `selection`: the waker's request. That is patch 1. Then turn `device.completion_us` a little, once or twice.
# 2. `long_think_time` off. That is patch 2 alone. Why does nothing change?
# 3. `slice_idle` = 0; `low_latency` off; dbench in jbd2's cgroup; a device that does not rotate.
# 4. BFQ of kernel 5.12, and then `detect` off. Are you surprised?
# 5. A preset that was *measured*: the crosses are a real kernel.

# %%
explorer = widgets.dbench_explorer()
explorer

# %% [markdown]
# ## Each rule by itself
#
# 5.6.4 with one waker rule changed at a time:

# %%
plots.rates(dbench.ablation(), published=wakers.published(), title="5.6.4, one waker rule changed")

# %% [markdown]
# Most bars are equal to the last digit, and that is half of the explanation: while `selection` looks at the wrong
# request, it does not matter how a waker is found. The other half: patch 1, and serving woken queues, end at the same
# speed (the dots), for nobody has found the waker of jbd2. And the versions:

# %%
every = wakers.table_of({version: wakers.under(version) for version in wakers.VERSIONS})
plots.rates(every, published=wakers.published(), title="One disk under every version of BFQ")

# %% [markdown]
# ## `slice_idle`: the blunt cure
#
# Without idling there is nothing to be held back by. What it costs where idling is good (a disk with several readers)
# is another story. (A `slice_idle` of 0 is another rule, not a very short wait: the line breaks there.)

# %%
vanilla, _ = wakers.thread_machine("5.6.4")
over = {"scheduler.slice_idle": range(0, 17, 2), "scheduler.low_latency": [True, False]}
curve = io.sweep(vanilla, job, over=over)
plots.knob_curve(curve, "scheduler.slice_idle", hue="scheduler.low_latency", published=wakers.published())

# %% [markdown]
# ## Real kernels, and a coin
#
# Real 5.6.4 kernels, without a patch, with patch 1, and with both, were run on a device of exactly 600 us. Crosses are
# the real kernel, second by second; lines are the model on the same device.

# %%
measured = {version: wakers.measured_course(version, wakers.MEASURED_RUN) for version in shown}
simulated = {version: io.simulate(dbench.machine_with(600, version), job) for version in shown}
plots.course(simulated, published=wakers.published(), measured=measured)

# %% [markdown]
# Without patches, and with both, model and kernel tell the same story: a fast beginning and a loss that stays, or no
# loss at all. **With patch 1 alone** both begin to fall in second 6. The real kernel falls all the way, is slow for
# nine seconds, and gets out again; the model, on this device, catches itself within two.
#
# The slow state is the same in both. In the logs of real kernels too the slow seconds are waits for *jbd2's* queue,
# while dbench's data is held back: jbd2's pauses count as short, so no waker is looked for, and patch 1 has nobody to
# serve. (The mail says that jbd2 waits for *dbench's* timer. So it is where both are in one cgroup, and here for the
# first slow seconds of 5.6.4.) But while jbd2 happens to pause long, its waker is looked for, and patch 1 has somebody
# to serve. So a run with patch 1 has two states, and which one it ends in hangs on microseconds:

# %%
over = {"scheduler.kernel": list(shown), "device.completion_us": range(690, 731, 2)}
coin = io.sweep(vanilla, job, over=over)
plots.knob_curve(coin, "device.completion_us", hue="scheduler.kernel", published=wakers.published())

# %% [markdown]
# Without patches a run always ends slow, with both it never does, and **patch 1 alone is a coin**. Real kernels toss it
# too: one and the same gave 45 to 193 MB/s with patch 1 on a device of 700 us. "Not enough", as the thread says; and
# what the model (or one run of a real kernel) says on one device with patch 1 alone is one toss.
#
# The same for all runs of dbench on 5.6.4, with and without patches, at many settings (up to eight clients, in and out
# of jbd2's cgroup, with write caches). Most lie on the line. Those far off it have more than one state, several
# clients, or a write cache:

# %%
from iosched.data import data_file
from iosched.validate import in_scope, validate_kernel

table = data_file("kernel/dbench.csv")
real = validate_kernel(table, keep=lambda run: in_scope(run) and run.conditions["kernel"].startswith("5.6.4"))
plots.validation_scatter(real.frame(), hue="kernel", label="dbench's throughput (MB/s)")

# %% [markdown]
# ## Every claim of the thread
#
# Hollow dots set a parameter, full ones are predictions, rings figures that the model misses. What is true or false,
# such as "patch 1 alone is not enough", stands in the table alone.

# %%
outcomes = threads.reproduce("dbench")
plots.reproduction(threads.table(outcomes), "Thread 1: published and modelled")

# %%
threads.table(outcomes)[["id", "statement", "published", "simulated", "real_kernel", "ratio", "role", "verdict"]]

# %% [markdown]
# ## What happened
#
# 1. `fsync` makes dbench wait for jbd2, and jbd2 wait for dbench's data. Each is the other's waker.
# 2. BFQ keeps the device for the queue that it has just served. If that queue's process sleeps on the other one, the
#    wait is in vain, and ends with the timer.
# 3. Since 5.3 BFQ looks for wakers. Up to 5.11 a condition asks the wrong queue, so that what was found was never used;
#    and for jbd2, whose pauses seem short, none is looked for. For some seconds weight raising hides it.
# 4. A rule that is never reached cannot be tuned. Before one asks which *value* of a rule is best, one must see that it
#    is *used*: switch it, alone, and look whether anything moves.

# %% [markdown]
# ## Exercises

# %%
widgets.dbench_exercise(1)

# %% [markdown]
# **Which single rule closes the gap?** Choose one; the simulator runs 5.6.4 with it and answers.

# %%
widgets.dbench_exercise(2)

# %%
widgets.dbench_exercise(3)

# %%
widgets.dbench_exercise(4)
