# A lesson of zerosim in percent format: `python lessons/lesson30_gpu_time.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson30_gpu_time")

# %% [markdown]
# # Where the time goes on a GPU
#
# On a CPU, a call computes and returns when it is done. On a GPU, a call enqueues a kernel in a
# stream and returns at once; the device executes the kernels of the stream later, in order. So a
# program has two clocks: one shows when it launched the work, the other when the device did it.
#
# You will look at the same training steps with both clocks. They ran on one H100, with two ranks on
# the card and sockets between them, under DDP and FSDP2, traced on the host and profiled on the
# device.

# %%
lab.graph("device-clock/fsdp2")

# %% [markdown]
# ## A call returns
#
# The largest of DDP's all-reduces carries more than twenty-seven MB. A trace on the host records
# when the call began and returned; the profile records when NCCL's kernel began and ended on the
# device.
#
# How long did the call take on the host, compared with the kernel on the device?

# %%
lab.ask("returns")

# %%
lab.show("clocks", "host-clock/ddp", "device-clock/ddp")
lab.reveal("returns")

# %% [markdown]
# ## A step by the wrong clock
#
# Now look at a whole step. By the host's clock, a unit computes from the call of its module until
# its return. The figure shows both clocks for steps of the same program; on the device's clock,
# the category "other" is idle time.
#
# By the host's clock the ranks do almost nothing but compute. What does the device's clock show?
# Predict what percentage of the device's time the kernels of the units take.

# %%
lab.ask("computes")

# %%
lab.show("budget", "host-clock/fsdp2", "device-clock/fsdp2")
lab.reveal("computes")

# %% [markdown]
# ## Exposed and hidden
#
# NCCL's kernels run in a stream of their own, so they can overlap with those that compute: then
# they are hidden. Where the stream of the units has to wait for them, they are exposed. A device
# with empty streams is idle because the host has not launched anything yet: the host takes longer
# to launch each small kernel than the device takes to execute it.
#
# FSDP2 prefetches its gathers and overlaps its reductions in order to hide communication. How much
# of its communication is hidden here?

# %%
lab.ask("hidden")

# %%
lab.show("overlap", "device-clock/ddp", "device-clock/fsdp2")
lab.reveal("hidden")

# %% [markdown]
# ## The rank that waits
#
# A kernel of NCCL begins as soon as its own rank has reached it. Then it spins on the device until
# the other rank arrives, too. In a profile this looks like a long all-gather; zerosim separates
# this waiting from the time in which bytes really move.
#
# One of the two ranks spent more than half of the step waiting like this. Which one? The figure
# above has the answer.

# %%
lab.ask("waits")
lab.reveal("waits")

# %% [markdown]
# ## What would help
#
# Sockets within one host are a slow network. A dry run predicts ZeRO-3 of the same size on two
# H100s in one node, where they are joined by NVLink. It models the duration of the kernels and the
# speed of the links, and assumes that the host is never late.
#
# Is the step now compute-bound? The model is small, and so is a batch of four sequences.

# %%
lab.ask("helps")

# %%
lab.record("nvlink/stage-3")

# %%
lab.show("scales", "nvlink/stage-3")
lab.reveal("helps")

# %%
lab.end()
