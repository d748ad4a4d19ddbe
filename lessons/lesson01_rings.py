# A lesson of zerosim in percent format: `python lessons/lesson01_rings.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson01_rings")

# %% [markdown]
# # Collectives and rings
#
# Several processes train together; each is called a rank. They have to combine their results: each
# rank has a long vector, and all of them need the sum of these vectors. An operation that all
# ranks perform together is a **collective**, and for ZeRO you need only three.
#
# Cut the vector into as many pieces as there are ranks: a, b, c and so on. (The replay calls them
# shards.) A **reduce-scatter** leaves each rank with one piece, summed over all ranks. An
# **all-gather** starts from there and brings every piece to every rank. An **all-reduce** gives
# every rank the whole sum. How much must a rank send for each?

# %%
lab.replay("ring/stage-1", at="backward reduce blocks.2 hop 1")

# %% [markdown]
# ## Reduce-scatter: sums that grow along the way
#
# The ranks form a ring, and each sends to the next one only. In the first hop, every rank sends one
# of its own pieces. The receiver adds its own values to the received piece, and in the next hop it
# passes this sum on. All ranks do so at once, each with a different piece, so that no connection is
# ever idle. The collective ends when every piece has visited all ranks. Rank 0 then has the
# finished piece a, rank 1 the finished piece b. Work it out before you run it: how many pieces does
# one rank send?

# %%
lab.ask("pieces")

# %%
lab.record("ring/stage-1", "ring/stage-0")

# %%
lab.show("hops", "ring/stage-1", "reduce-scatter")
lab.reveal("pieces")

# %% [markdown]
# ## All-gather: finished pieces circulate
#
# Now each rank owns one finished piece, and every rank needs all of them. The pieces go around the
# ring once more. This time the ranks add nothing: a rank keeps a copy of each received piece and
# passes it on. Follow piece a with your finger. It belongs to rank 0, which sends it to its
# neighbour; the neighbour passes it on. Which rank has to wait for piece a the longest?

# %%
lab.ask("last")

# %%
lab.show("hops", "ring/stage-1", "all-gather")
lab.replay("ring/stage-1", at="update gather blocks.2 hop 1")
lab.reveal("last")

# %% [markdown]
# ## All-reduce: both, one after the other
#
# An all-reduce has to give the whole sum to every rank. You have already seen its two halves: form
# the sums, piece by piece, then bring the finished pieces to every rank. Call the size of the
# vector its payload. How much does one rank send, measured in payloads? Use what you counted: how
# many pieces leave a rank in each half, and what fraction of the payload is a piece?

# %%
lab.ask("all_reduce")

# %%
lab.show("hops", "ring/stage-0", "all-reduce")
lab.show("shares", "ring/stage-1", "ring/stage-0")
lab.replay("ring/stage-0", at="backward reduce blocks.2 hop 4")
lab.reveal("all_reduce")

# %% [markdown]
# ## A thousand ranks
#
# More ranks mean more hops: a ring of a thousand ranks needs almost two thousand hops for one
# all-reduce. That sounds hopeless. But the pieces become smaller as well. Before you look, decide
# what happens to the number of bytes that one rank sends for the same vector as the ring grows.

# %%
lab.ask("limit")
lab.reveal("limit")

# %%
lab.end()
