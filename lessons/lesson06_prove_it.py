# A lesson of zerosim in percent format: `python lessons/lesson06_prove_it.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson06_prove_it")

# %% [markdown]
# # Prove it: the three ledgers
#
# How do you know that any of the numbers so far is true? A simulator that counts its own messages
# proves only that it can count. So zerosim keeps three ledgers, and none of them knows about the
# others.
#
# **Theory** works out, from the model, the stage and the number of ranks, what has to be sent. The
# **trace** records what PyTorch was asked to send, message by message. The **wire** is what the
# kernel counted on the connections between the ranks. A law is proved where all three agree, except
# for differences in which every byte has a name.

# %%
lab.replay("ring/stage-2", at="backward reduce blocks.2")

# %% [markdown]
# ## How exact is exact?
#
# The kernel counts more than the program asked for: each message has a header, and Gloo says
# "ready" before it sends. The ranks also average their losses, which the law does not mention. So
# the wire never quite equals the law.
#
# That is where many reports stop and write "about". But a difference can be worked out as well: so
# many messages, so many bytes of header each. Subtract every difference that has a name. How many
# bytes are left?

# %%
lab.ask("left")

# %%
lab.show("causes", "ring/stage-2")
lab.reveal("left")

# %% [markdown]
# ## The backend does the work
#
# Until now the collectives were zerosim's own rings, made of single messages. Real programs call
# the backend: `reduce_scatter_tensor`, and it is done. The name says what the result is: each rank
# has its piece of the sum. It does not say how the piece got there.
#
# From now on the run uses the collectives of Gloo, PyTorch's backend for CPUs. The program makes
# the same calls in the same order. Which ledger can show the bytes that these collectives really
# send?

# %%
lab.ask("witness")

# %% [markdown]
# ## The same two calls
#
# Now predict the bytes. ZeRO-2 reduces its gradients with a reduce-scatter and gathers the updated
# parameters with an all-gather; you know what a rank of a ring sends for both. The run asks Gloo
# for exactly these two. Does Gloo send less than a ring, more, or just as much?

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
# A suspicion is worth more if it predicts something new. You now have one collective under
# suspicion, in one stage. Other stages ask the same backend for other collectives, and more or less
# often: go through what each of them asks for in a step, and say in advance which of them must send
# too much, and by how much.
#
# Then compare. In the figure each bar is divided into the bound for what was asked for, what goes
# beyond it, and the framing of the messages. The mark is the law.

# %%
lab.ask("hit")

# %%
lab.show("excess", "native/stage-0", "native/stage-2", "native/stage-3")
lab.reveal("hit")

# %%
lab.end()
