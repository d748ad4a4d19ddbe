# A lesson of zerosim in percent format: `python lessons/lesson29_nccl.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson29_nccl")

# %% [markdown]
# # What NCCL really sends
#
# On GPUs the collectives are NCCL's. It decides along which edges to send, in how many pieces, and
# in which protocol, and it does not report its choice. But if it sends over sockets, the kernel
# counts every byte.
#
# All that you see here was measured on one H100, with two ranks on the same card and sockets
# between them, so you need no GPU. Predict what a ring sends, then look at what the kernel counted.
# Begin with the events of a program in PyTorch's DDP.

# %%
lab.graph("host-clock/ddp")

# %% [markdown]
# ## A header for each message
#
# NCCL cuts a large collective into chunks, deals these out to its channels, and sends a chunk in
# two messages. A receiver has to know how long a message is, so each begins with a header.
#
# DDP all-reduces its gradients in a few buckets. You know what a ring of two ranks sends for them:
# with two ranks it is just the payload. How much do the headers add?

# %%
lab.ask("headers")
lab.reveal("headers")

# %% [markdown]
# ## A small call
#
# A header is a promise: when it has arrived, the bytes behind it follow at once. To keep it, the
# sender has to wait until the data is complete, and then the receiver waits for the header. For a
# large message this costs nothing, and a small one does little else than wait.
#
# So NCCL has a second protocol, called LL, for low latency. It writes a flag next to each piece of
# data, both in one store. The receiver reads the memory again and again: as soon as the flag is
# new, so is the data. The receiver never waits for a whole message. Data and flag are equally
# large, four bytes each.

# %%
lab.ask("small")

# %%
lab.show("protocols")
lab.reveal("small")

# %% [markdown]
# ## A large call
#
# Flags take half of the bandwidth. NCCL has a model of its own, in which each protocol has a
# latency and a bandwidth, and takes the one that it expects to be over first. Compare the rows of
# the table: somewhere the protocol changes.
#
# The last row is an all-reduce of sixty-four MiB. How many times its payload does a rank send now?

# %%
lab.ask("large")
lab.reveal("large")

# %% [markdown]
# ## Why there are buckets
#
# A model has hundreds of tensors, many of them small: biases, norms. Reducing each separately would
# mean one small call after another. So systems fill a bucket first, and reduce the bucket.
#
# Two dry runs of ZeRO-2 follow, of the same model on two nodes with one H100 each. They differ only
# in the size of their buckets. Think of what you have just seen, and decide what small buckets
# really cost: bytes or time?

# %%
lab.ask("buckets")

# %%
lab.record("small-buckets/stage-2", "large-buckets/stage-2")

# %%
lab.show("bucketed", "small-buckets/stage-2", "large-buckets/stage-2")
lab.reveal("buckets")

# %% [markdown]
# The bytes are almost the same. But there are more calls, and each begins with a latency that no
# bandwidth reduces. `zerosim verify` knows NCCL's rules: on a run over sockets it explains every
# byte of a header and of a flag, and what is left over is a finding.

# %%
lab.end()
