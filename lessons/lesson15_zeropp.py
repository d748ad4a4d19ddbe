# A lesson of zerosim in percent format: `python lessons/lesson15_zeropp.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson15_zeropp")

# %% [markdown]
# # ZeRO++
#
# In all lessons so far, all bytes cost the same. In a cluster they do not: the links between the
# devices of a node are many times as fast as the network between nodes. ZeRO-3 ignores this. Its
# rings go through all ranks, and the slowest link sets the pace.
#
# ZeRO++ sends less between nodes, and pays for it with memory and accuracy. It has three parts,
# one for each collective of ZeRO-3. Our ranks are on two nodes, two on each; the replay, which
# shows ZeRO++, draws the border between them.

# %%
lab.replay("plusplus/stage-3", at="forward gather hidden.1")

# %% [markdown]
# ## What leaves a node
#
# Begin with plain ZeRO-3; this is what the replay shows now. A ring passes from rank to rank, in
# order, and back from the last one to the first. Ranks of a node are neighbours. So only one rank
# of each node sends to another node, in each of the three collectives.
#
# The paper counts in M, the bytes of all parameters in sixteen bits, and says that ZeRO-3 sends
# three M between nodes. How much does our trace show for one node?

# %%
lab.replay("nodes/stage-3", at="forward gather hidden.1")
lab.ask("plain")

# %% [markdown]
# ## Three ways to send less
#
# qwZ: parameters are gathered as `int8`, which halves the bytes, with one scale for each block of
# numbers. hpZ: after forward each node keeps a whole copy of the parameters, divided among its own
# ranks, and backward gathers from that. qgZ: gradients are reduced as `int4`, a quarter of their
# bytes; each rank sends to every other rank the pieces that this rank owns, first within the node
# and then across, and sums in fp32 in between.
#
# According to the paper, this leaves half of the gather in forward, nothing of the gather in
# backward, and a quarter of the gradients. How much is that in total?

# %%
lab.replay("plusplus/stage-3", at="backward reduce hidden.1")
lab.ask("together")

# %%
lab.record("nodes/stage-3", "qwz/stage-3", "hpz/stage-3", "qgz/stage-3", "plusplus/stage-3")

# %%
lab.show("leaves", "nodes/stage-3", "qwz/stage-3", "hpz/stage-3", "qgz/stage-3", "plusplus/stage-3")
lab.show("both", "nodes/stage-3", "qwz/stage-3", "hpz/stage-3", "qgz/stage-3", "plusplus/stage-3")
lab.reveal("plain")
lab.reveal("together")

# %% [markdown]
# ## What the scales add
#
# A block of numbers has its own scale, an fp32 number: the number of largest magnitude in the
# block becomes the largest integer. Small blocks are more accurate, because one large number
# affects fewer others. But each block is sent with a scale.
#
# The paper's fractions omit the scales. In which of the two quantized collectives do they add
# more, relative to the numbers that they belong to?

# %%
lab.ask("scales")

# %%
lab.show("blocks", "plusplus/stage-3")
lab.reveal("scales")

# %% [markdown]
# ## What it costs in memory
#
# With hpZ, the gather in backward no longer uses the network between nodes. The price is memory:
# besides their own ZeRO-3 shards, the ranks of a node hold the node's copy, from forward until the
# update.
#
# Two ranks share a node here. How much does each of them keep, compared with all parameters?

# %%
lab.ask("secondary")
lab.reveal("secondary")

# %% [markdown]
# ## What it costs in accuracy
#
# Offload and Infinity changed no bit of any loss: they move the same numbers elsewhere. ZeRO++
# sends different numbers. Rounded parameters change the forward, and rounded gradients change the
# update.
#
# hpZ rounds nothing, but qwZ and qgZ do. In which iteration can the loss differ for the first
# time?

# %%
lab.ask("differs")

# %%
lab.show("losses", "nodes/stage-3", "qwz/stage-3", "hpz/stage-3", "qgz/stage-3", "plusplus/stage-3")
lab.reveal("differs")

# %%
lab.end()
