# A lesson of zerosim in percent format: `python lessons/lesson06_prove_it.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson06_prove_it")

# %% [markdown]
# # Prove it: the three ledgers
#
# How do you know that any of the numbers so far is true? A simulator that counts its own messages
# proves only that it can count. So zerosim keeps three ledgers that are independent of each other.
#
# From the model, the stage and the number of ranks, **theory** computes the bytes that must be
# sent. The **trace** records the bytes that the program requested from PyTorch, message by message.
# The **wire** is the kernel's count on the connections between the ranks. A law is proved if all
# three agree, except for differences in which every byte is explained.

# %%
lab.replay("ring/stage-2", at="backward reduce blocks.2")

# %% [markdown]
# ## How exact is exact?
#
# The kernel counts more than the program requested: each message has a header, and Gloo announces
# that it is ready before it sends. The ranks also average their losses, which the law does not
# mention. So the wire never quite equals the law.
#
# That is where many reports stop and write "about". But the difference can be computed, too: the
# number of messages, times the bytes of each header. Subtract every difference that has a named
# cause. How many bytes are left?

# %%
lab.ask("left")

# %%
lab.show("causes", "ring/stage-2")
lab.reveal("left")

# %% [markdown]
# ## The backend does the work
#
# Until now the collectives were zerosim's own rings, which consist of individual messages. Real
# programs call the backend: a single call of `reduce_scatter_tensor` does it all. The name states
# the result: each rank has its piece of the sum. It does not state how the piece got there.
#
# From now on the run uses the collectives of Gloo, PyTorch's backend for CPUs. The program issues
# the same calls in the same order. Which ledger can show the bytes that these collectives really
# send?

# %%
lab.ask("witness")

# %% [markdown]
# ## The same two calls
#
# Now predict the bytes. ZeRO-2 reduces its gradients with a reduce-scatter and gathers the updated
# parameters with an all-gather; you know what a rank of a ring sends for both. The run calls
# exactly these two collectives of Gloo. Does Gloo send less than a ring, more, or just as much?

# %%
lab.ask("native")

# %%
lab.record("native/stage-2")

# %%
lab.show("causes", "native/stage-2")
lab.reveal("witness")
lab.reveal("native")

# %% [markdown]
# ## Which other stages are affected?
#
# A hypothesis is worth more if it predicts something new. You now suspect one collective, in one
# stage. Other stages call other collectives of the same backend, more or less often. Go through
# the calls of each stage in a step, and predict which stages must send too much, and by how much.
#
# Then compare. In the figure, each bar has three parts: the bound for the requested collectives,
# the bytes beyond it, and the framing of the messages. The mark is the law.

# %%
lab.ask("hit")

# %%
lab.show("excess", "native/stage-0", "native/stage-2", "native/stage-3")
lab.reveal("hit")

# %%
lab.end()
