# A lesson of zerosim in percent format: `python lessons/lesson29_nccl.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson29_nccl")

# %% [markdown]
# # What NCCL really sends
#
# On GPUs the collectives are NCCL's. NCCL decides along which edges to send, in how many pieces,
# and with which protocol, and it does not report its choice. But if it sends over sockets, the
# kernel counts every byte.
#
# All that you see here was measured on one H100, with two ranks on the same card and sockets
# between them, so you need no GPU. Predict what a ring sends, then look at what the kernel counted.
# Begin with the events of a program that uses PyTorch's DDP.

# %%
lab.graph("host-clock/ddp")

# %% [markdown]
# ## A header for each message
#
# NCCL cuts a large collective into chunks, distributes these over its channels, and sends each
# chunk in two messages. A receiver has to know how long a message is, so each message begins with
# a header.
#
# DDP all-reduces its gradients in a few buckets. You know what a ring of two ranks sends for them:
# exactly the payload. How much do the headers add?

# %%
lab.ask("headers")
lab.reveal("headers")

# %% [markdown]
# ## A small call
#
# Once a header has arrived, the bytes after it must follow immediately. So the sender has to wait
# until the data are complete, and the receiver then waits for the header. For a large message this
# waiting is negligible, but for a small one it is nearly all of the time.
#
# So NCCL has a second protocol, called LL, for low latency. It writes each piece of data together
# with a flag in a single store. The receiver polls the memory: as soon as the flag is new, the data
# are valid. The receiver never waits for a whole message. The data and the flag take four bytes
# each.

# %%
lab.ask("small")

# %%
lab.show("protocols")
lab.reveal("small")

# %% [markdown]
# ## A large call
#
# The flags take half of the bandwidth. NCCL has its own model, in which each protocol has a
# latency and a bandwidth, and uses the protocol that it expects to finish first. Compare the rows
# of the table: somewhere the protocol changes.
#
# The last row is an all-reduce of sixty-four MiB. How many times its payload does a rank send
# here?

# %%
lab.ask("large")
lab.reveal("large")

# %% [markdown]
# ## Why there are buckets
#
# A model has hundreds of tensors, many of them small: biases, norms. Reducing each separately would
# mean one small call after another. So systems fill a bucket first, and reduce the bucket.
#
# Two dry runs of ZeRO-2 follow, of the same model on two nodes with one H100 each. They differ
# only in the size of their buckets. From what you have just seen: do small buckets cost bytes or
# time?

# %%
lab.ask("buckets")

# %%
lab.record("small-buckets/stage-2", "large-buckets/stage-2")

# %%
lab.show("bucketed", "small-buckets/stage-2", "large-buckets/stage-2")
lab.reveal("buckets")

# %% [markdown]
# The bytes are almost the same. But there are more calls, and each has a latency that no bandwidth
# can reduce. `zerosim verify` knows NCCL's rules: on a run over sockets, it explains every byte of
# the headers and flags, so any byte left over deserves an investigation.

# %%
lab.end()
