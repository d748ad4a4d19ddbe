# A lesson of zerosim in percent format: `python lessons/lesson11_profile.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson11_profile")

# %% [markdown]
# # Read a real profile
#
# A profile often differs from the paper. Usually nothing is broken: an implementation requests more
# or less than the law says, and a backend sends more than was requested. You have met both by now.
#
# So examine real programs: DDP, DDP with ZeroRedundancyOptimizer, FSDP2 and DeepSpeed. All train
# the same model from the same weights on the same data. None of them was modified or reports its
# own traffic; zerosim observes the calls to PyTorch. Proceed in the same way each time: predict
# from the law, measure, and find the cause of each difference.

# %%
lab.graph("profiles/fsdp2")

# %% [markdown]
# ## A sharded optimizer
#
# DDP all-reduces gradients while backward runs, and every rank updates everything: 2Ψ, if an
# all-reduce counts twice. ZeroRedundancyOptimizer is PyTorch's ZeRO-1. It takes the place of the
# optimizer: each rank keeps the momentum and the variance of some of the parameters, updates these
# parameters, and broadcasts them to the others.
#
# The model below it is still wrapped in DDP, which knows nothing of the optimizer. According to the
# paper, ZeRO-1 communicates 2Ψ. How much do the two communicate in total?

# %%
lab.ask("divided")

# %%
lab.record("profiles/ddp", "profiles/ddp-zero", "profiles/fsdp2", "profiles/fsdp2-kept")

# %%
lab.show("handed", "profiles/ddp", "profiles/ddp-zero")
lab.reveal("divided")

# %% [markdown]
# ## FSDP2 as in its tutorial
#
# `fully_shard` is called on each block and then on the whole model. The embedding and the head,
# which are in no block, form a unit of their own, the root. All units are treated as in ZeRO-3:
# gathered in forward, freed, gathered again in backward, and their gradients reduce-scattered.
#
# All but one. The root is the outermost unit: where its forward ends, its backward begins. So FSDP2
# does not free the root in between, unless an option says so. The second bar of the figure shows
# `reshard_after_forward=False`, which keeps every unit in this way.

# %%
lab.ask("root")

# %%
lab.show("handed", "profiles/fsdp2", "profiles/fsdp2-kept")
lab.reveal("root")

# %% [markdown]
# ## The same payload on the wire
#
# DDP and FSDP2 with `reshard_after_forward=False` communicate the same payload. On a ring both
# would send the same. But these are the backend's own collectives, and you know from the three
# ledgers that the name of a collective does not tell you how much it sends.
#
# Which of the two sends more, counted by the kernel? In the figure, each bar has three parts: the
# bound, which is the minimum of a ring for the requested collectives, the bytes beyond it, and the
# framing of the messages. The mark is the law of the stage that the program implements.

# %%
lab.ask("wire")

# %%
lab.show("excess", "profiles/ddp", "profiles/ddp-zero", "profiles/fsdp2", "profiles/fsdp2-kept")
lab.reveal("wire")

# %% [markdown]
# ## DeepSpeed by default
#
# DeepSpeed is where ZeRO comes from. It is not installed with zerosim; these runs were recorded
# beforehand, with nothing but the stage set in DeepSpeed's configuration.
#
# By default, stage 1 has `reduce_scatter: true`. It also has `use_multi_rank_bucket_allreduce:
# true`: one call sends the parts of a bucket for several ranks. And in stage 3 a parameter with no
# more elements than `stage3_param_persistence_threshold` is considered too small to be worth a
# gather in each forward and backward, so it is kept whole. That threshold was chosen with billions
# of parameters in mind. What do you expect of the two stages?

# %%
lab.ask("first")
lab.ask("third")

# %%
lab.show("handed", "deepspeed/deepspeed-1", "deepspeed/deepspeed-3")
lab.reveal("first")
lab.reveal("third")

# %% [markdown]
# ## What each program holds
#
# Traffic is one half of the trade-off, and memory is the other. All of these programs train in
# fp32, so a parameter takes as many bytes as its gradient, its momentum or its variance, and needs
# no master copy.
#
# A rank also holds data in transit: DDP copies gradients into buckets, FSDP2 gathers into buffers.
# And it holds activations, which are not divided here. Consider the peak memory of a rank, and put
# three of the programs in order.

# %%
lab.ask("held")

# %%
lab.show("peaks", "profiles/ddp", "profiles/ddp-zero", "profiles/fsdp2-kept", "profiles/fsdp2")
lab.reveal("held")

# %% [markdown]
# ## All of it in one table
#
# This is how to read a profile. Each row of the first table has the measurements of `zerosim
# profiles`: the calls, their payload, the bytes that a ring would send for them, the bytes that the
# kernel sent, and the peak of a rank. DeepSpeed's entry in the last column is no mistake: DeepSpeed
# reserves a bucket of the configured size, half a billion elements, however small the model is.
#
# The second table lists, below each program's law, the causes of its deviation, as found by
# `zerosim verify`. If anything were left over, either the law would be the wrong one or you would
# have found a bug.

# %%
lab.show(
    "profiles",
    "profiles/ddp",
    "profiles/ddp-zero",
    "profiles/fsdp2",
    "profiles/fsdp2-kept",
    "deepspeed/deepspeed-1",
    "deepspeed/deepspeed-3",
)
lab.show(
    "laws",
    "profiles/ddp",
    "profiles/ddp-zero",
    "profiles/fsdp2",
    "profiles/fsdp2-kept",
    "deepspeed/deepspeed-1",
    "deepspeed/deepspeed-3",
)

# %%
lab.end()
