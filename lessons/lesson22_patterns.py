# A lesson of zerosim in percent format: `python lessons/lesson22_patterns.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson22_patterns")

# %% [markdown]
# # Broadcast, all-to-all and trees
#
# Rings carry most of what ZeRO sends, because no algorithm sends fewer bytes. But every message
# also has a start-up time, however small it is, and in a ring many messages follow one another.
# Call the start-up time of a message alpha, and the time per byte beta: the time of a collective is
# a multiple of alpha plus a multiple of beta.
#
# Other patterns need fewer start-ups, or deliver something different to each rank. A small program
# calls them one after another, on eight ranks with the same payload, and reads the kernel's
# counters before and after each call.

# %%
lab.graph("collectives/stage-0")

# %% [markdown]
# ## One to all
#
# Before training begins all ranks need the same weights. One of them, the root, broadcasts its own
# weights. It could send them to every rank, or to one rank that sends them on. Or every rank that
# already has them helps: first one rank has them, then two, then four.
#
# PyTorch's Gloo uses the last way. How many payloads does the root send?

# %%
lab.ask("root")

# %%
lab.show("tree", "collectives/stage-0")
lab.show("senders", "collectives/stage-0")
lab.reveal("root")

# %% [markdown]
# ## Rounds
#
# That was a tree. Its root sends more than any rank of a chain, in which each rank forwards the
# payload once, in pieces that follow one another closely. But a chain gets longer with each rank,
# and each of its links adds a start-up time.
#
# Count the rounds that a tree takes to reach a little over a thousand ranks.

# %%
lab.ask("rounds")

# %%
lab.show("broadcasts")
lab.reveal("rounds")

# %% [markdown]
# ## Ring or tree
#
# An all-reduce can go up a tree, adding along the way, and down again. The price is bandwidth:
# NCCL's two trees together keep all links busy, but not quite as well as a ring.
#
# For each call, NCCL predicts with its own model how long either would take with this payload on
# these nodes. Which do you expect it to choose for a tiny payload, and which for a large bucket?

# %%
lab.ask("size")

# %%
lab.show("trees", "dgx-a100", "8")
lab.reveal("size")

# %% [markdown]
# ## All-to-all
#
# In an all-to-all a rank has a different piece for each of the others. A mixture-of-experts (MoE)
# layer uses it to send each token to the rank that has its expert, and back. It also turns a matrix
# that is sharded by rows into one that is sharded by columns. Nothing is added up, and no two ranks
# receive the same data.
#
# The payload is as large as that of the broadcast, and one of its pieces stays on the rank. How
# much does a rank send?

# %%
lab.ask("pieces")
lab.reveal("pieces")

# %% [markdown]
# ## Rounded along the way
#
# ZeRO++ reduces gradients by an all-to-all: each rank sends each piece straight to its owner,
# which adds them up. A ring would send as many bytes. But ZeRO++ quantizes what it sends, and in a
# ring a piece is a new sum at each hop, so it would be quantized again.
#
# How often is a piece rounded before its sum is complete, if a ring quantizes each message?

# %%
lab.ask("rounded")
lab.show("hops", "ring/stage-2", "reduce-scatter")
lab.reveal("rounded")

# %% [markdown]
# ## Where each is used
#
# Initial weights are broadcast once. Afterwards a broadcast is rare: if each owner sends its part
# to all ranks, that takes as many broadcasts as there are owners. Together they do the work of an
# all-gather, with more start-ups.
#
# One of the traced programs does so in every step nevertheless. Which?

# %%
lab.ask("users")

# %%
lab.show("profiles", "profiles/ddp", "profiles/ddp-zero", "profiles/fsdp2")
lab.reveal("users")

# %%
lab.end()
