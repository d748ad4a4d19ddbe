# A lesson of zerosim in percent format: `python lessons/lesson14_infinity.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson14_infinity")

# %% [markdown]
# # ZeRO-Infinity
#
# ZeRO-3 partitions everything among the ranks, and ZeRO-Offload moves the optimizer states to the
# host. What if the hosts are full as well? A node has a disk, often a fast one, with more space
# than all other memory combined. ZeRO-Infinity keeps even parameters there, and brings each unit to
# the device only just before it computes.
#
# So a rank's part of a unit goes from the disk to the host, from the host to the device, and from
# there to the other ranks. Follow one unit along this path.

# %%
lab.replay("infinity/stage-3", at="forward copy hidden.1")
lab.show("journey", "infinity/stage-3", "hidden.1")

# %% [markdown]
# ## The traffic of the disk
#
# Everything is on the disk: parameters in sixteen bits, and master weights, momentum and variance
# in fp32. A rank reads and writes its own part of each.
#
# Go through a step. When does it need the parameters? When does it need the optimizer states, and
# what must be written back? Count bytes for each parameter, reads and writes combined. Then compare
# the kernel's count for this process with the content of the files.

# %%
lab.ask("disk")
lab.ask("kernel")

# %%
lab.record(
    "infinity/stage-3",
    "parts/stage-3",
    "owners/stage-3",
    "untiled/stage-3",
    "tiles/stage-3",
    "resumed/stage-3",
)

# %%
lab.show("copies", "infinity/stage-3", "storage")
lab.reveal("disk")
lab.reveal("kernel")

# %% [markdown]
# ## All links at once
#
# There are two ways to keep a unit off the devices. One rank may own all of it, fetch it over its
# own bus when it is needed, and broadcast it. Or each rank keeps a part, all fetch their parts at
# the same time, and then the ranks gather.
#
# In the end every rank has the unit, and the same total number of bytes has crossed the buses. Yet
# this choice is central to the paper, which calls the second way bandwidth-centric. How much
# longer does the transfer over the buses take the first way?

# %%
lab.ask("links")

# %%
lab.show("fetches", "parts/stage-3", "owners/stage-3")
lab.reveal("links")

# %% [markdown]
# ## One layer that is too large
#
# A unit must be whole when it computes. If a single matrix does not fit on the device, no
# partitioning among ranks helps. So the matrix is cut into tiles, which are separate units and
# compute one after another: the result is the sum of their products, or their products side by
# side.
#
# Unlike tensor parallelism this needs no other rank. How does the peak of the gathered parameters
# change?

# %%
lab.ask("tiles")

# %%
lab.show("tiled", "untiled/stage-3", "tiles/stage-3")
lab.reveal("tiles")

# %% [markdown]
# ## Pull the plug
#
# Data on a disk outlive the process. After each step the ranks commit: from then on, the state that
# they have written is valid. Until then, the previous state remains valid.
#
# In the last run a rank was killed in the middle of its second iteration, by the program
# `lessons/programs/killed_rank.py`. Then the run was started again with `--resume`. With which
# iteration does it continue, and how does its loss compare with that of the uninterrupted run?

# %%
lab.ask("resumed")

# %%
lab.show("losses", "infinity/stage-3", "resumed/stage-3")
lab.reveal("resumed")

# %%
lab.end()
