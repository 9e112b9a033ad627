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
# # 4. Why does io.latency do nothing?
#
# In August 2019 Paolo Valente wrote to the kernel's block list. One process reads 4 KiB at random places. Fifteen
# others read in sequence, as fast as they can, each in a cgroup of its own. After two seconds he notes the mean
# latency of the random reader, in milliseconds:
#
# | | no I/O control | io.latency, target 10 us | BFQ |
# |---|---|---|---|
# | NVMe SSD | 1.9 | **1.9** | 0.07 |
# | SATA SSD | 39 | **56** | 0.7 |
# | HDD | 4500 | **4500** | 11 |
#
# io.latency is there to protect such a reader. It does not seem to do anything. Then Josef Bacik asks for direct
# I/O, and the middle column becomes 0.08, 0.2 and 118 ms. Has it begun to work?

# %%
from iosched import plots, queueing, threads, widgets
from iosched.threads import io_latency

# %% [markdown]
# ## Predict first
#
# Fifteen readers on a SATA SSD of about 500 MB/s. Each has two readahead windows of 256 KiB in flight: the one it
# waits for, and the next. The device serves them in order. **How long does a small read wait that comes last?**

# %%
guess = widgets.predict("How long does a read take beside fifteen readers?", "ms")
guess

# %%
windows, window = 30, 256 * 1024
by_hand = windows * window / 515e6
guess.reveal(by_hand * 1e3)

# %% [markdown]
# So a queue in front of the device is all that is needed for tens of milliseconds. Mean-value analysis says the
# same (`queueing.classes`: one random reader and thirty windows at one server); on an NVMe SSD of 3.5 GB/s it is 2
# ms, which is the thread's 1.9.

# %%
queueing.classes(counts=[1, 30], service_s=[0.1e-3, window / 3.5e9]).response_s[0] * 1e3

# %% [markdown]
# ## The thread's machines
#
# The devices were named later: a Samsung 970 PRO, a Plextor PX-256M5S, a Hitachi Travelstar. What their makers say
# is in their descriptions; one figure of each slow device had to be fitted, as they say there.

# %%
machine, jobs = io_latency.scenario(device="sata")
machine.device

# %%
sata = io_latency.by_control(device="sata")
plots.latencies(sata, {"none": 39e-3, "io.latency": 56e-3, "bfq": 0.7e-3})

# %% [markdown]
# The curves for no control and for io.latency lie on each other. Under BFQ half of the reads take as long as on an
# idle device.

# %% [markdown]
# ## What io.latency did in these two seconds
#
# It looks at the reader's latencies once per window. Where they miss the target, the *other* groups' queue depth is
# halved, **at most once every half second**. A queue of 32 is thus 16, 8, 4 and 2 when the test ends; an NVMe queue
# of 1023 is 63.

# %%
longer = {"control": "io.latency", "interferers": "direct readers", "n": 4, "seconds": 5}
traced = {
    "NVMe SSD": io_latency.traced(device="nvme", **longer),
    "SATA SSD": io_latency.traced(device="sata", **longer),
}
plots.depths(traced, "other0", limit_s=io_latency.LEAD + 2)

# %% [markdown]
# And a depth of 2 does not hold anybody back: it is a depth *per group*, and a process that waits for each of its
# reads never has more than two in flight. Fifteen groups at depth 1 still send fifteen. So the controller had no
# chance.
#
# ## Then why is the second table better?
#
# With direct I/O there is no readahead. The fifteen send 4 KiB at a time where they had sent windows of 256.

# %%
direct = io_latency.by_control(device="sata", interferers="direct readers")
plots.latencies(
    {"buffered, none": sata["none"], "direct, none": direct["none"], "direct, io.latency": direct["io.latency"]}
)

# %% [markdown]
# **It is the size of the requests, not the controller.** The thread's own column without control does not show
# that, because it repeats 1.9, 39 and 4500: it was not measured again with direct readers.
#
# On the disk the same holds: sixteen random reads in a queue that is served in order.

# %%
disk = io_latency.hitachi_7k750()
16 * disk.random_read_s(part=16 * io_latency.FILE / (1e9 * disk.capacity_GB)) * 1e3

# %% [markdown]
# (118 ms were measured.) And the 4.5 s of the first table? The disk goes on with what it reads ahead for a while
# before it takes the oldest command: fifteen streams, 0.3 s each. The test lasts two seconds, but a read that has
# begun is waited for. It was one read.

# %%
hdd = io_latency.simulated(device="hdd")
hdd.jobs.head(2)[["job", "operations", "latency_mean_s"]]

# %% [markdown]
# ## Where io.latency works
#
# Give it a group that can be limited, and time: all fifteen in one cgroup, sixteen reads each in flight, ten
# seconds.

# %%
together = {"interferers": "direct readers", "together": True, "depth": 16, "target_us": 200, "seconds": 10}
plots.latencies(io_latency.by_control(("none", "io.latency"), device="sata", **together))

# %% [markdown]
# ## What BFQ pays
#
# BFQ keeps the device for the reader: after each of its reads it waits for the next one, and lets few others in.
# Their throughput is the price. (Not on this SATA SSD: of fewer streams at once its controller knows all.)

# %%
io_latency.price().round(2)

# %% [markdown]
# ## Everything on the table
#
# Every figure of the thread, simulated, by formula, and whether it was fitted.

# %%
table = threads.table(threads.reproduce("io-latency"))
table[["statement", "published", "simulated", "closed_form", "role", "verdict"]]

# %%
plots.reproduction(table)

# %% [markdown]
# What is off, and why:

# %%
table[table.verdict != "reproduced"][["id", "statement", "simulated", "reason"]]

# %% [markdown]
# ## Your turn
#
# Target, number and kind of the others, buffered or direct, device, depth, scheduler. Find a set-up in which
# io.latency helps; then one in which BFQ does not.

# %%
widgets.latency_explorer()
