# A lesson of zerosim in percent format: `python lessons/lesson28_cluster.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson28_cluster")

# %% [markdown]
# # Three axes, one cluster
#
# You are given a model with the shape of GPT-3, 256 GPUs in nodes of eight, and a batch. How do you
# divide training among the GPUs?
#
# There are three ways to divide it, and you know all of them by now. Tensor parallelism cuts each
# matrix, pipeline parallelism cuts between the blocks, and data parallelism cuts the batch, with
# ZeRO to shard the states that its ranks would otherwise replicate. A layout combines them; the
# product of the three degrees of parallelism is the number of GPUs. All numbers in this lesson are
# computed from theory or predicted: nobody brings this cluster to class.
#
# Look once more at a pipeline whose ranks pass their activations on.

# %%
lab.replay("parallel/1f1b")

# %% [markdown]
# ## Does it fit at all?
#
# Begin with what must be in memory. Mixed-precision training with Adam keeps sixteen bytes for
# each parameter: parameters, gradients, fp32 master, momentum, variance. Suppose that these states
# were partitioned perfectly, and that nothing else took any memory. How many GPUs would hold them?

# %%
lab.ask("least")
lab.reveal("least")

# %% [markdown]
# ## What each axis sends
#
# The traffic of each axis has a different origin.
#
# - **Tensor parallelism** all-reduces the activations of a micro-batch twice in each block in
#   forward, and twice in backward.
# - **Pipeline parallelism** sends the activations of a micro-batch to the next stage once, and
#   their gradient back once.
# - **Data parallelism** with ZeRO-1 reduce-scatters gradients and all-gathers parameters, once in
#   a step, and only for those parameters that the other two axes leave on a GPU.
#
# The traffic of the first two grows with the tokens, that of the last one with the parameters.
# Take eight GPUs on each of the first two axes and four on the last. Put the axes in order.

# %%
lab.ask("order")

# %%
lab.show("axes")
lab.reveal("order")

# %% [markdown]
# ## Which axis gets the fast links
#
# Within a node, a GPU sends over NVLink. To other nodes, it sends over its share of the network,
# which is about a twelfth as fast. Neighbouring ranks share a node, and tensor-parallel ranks are
# neighbours: the axis that sends the most belongs inside the node. A node has eight GPUs.
#
# Two dry runs were made with the same blocks and the same micro-batch: tensor parallelism over the
# eight GPUs of a node, and over the sixteen GPUs of two nodes. With sixteen ranks, each of them
# has half as much to compute. What happens to one all-reduce?

# %%
lab.ask("across")

# %%
lab.record("inside/stage-1", "across/stage-1")

# %%
lab.show("spans", "inside/stage-1", "across/stage-1")
lab.reveal("across")

# %% [markdown]
# ## More micro-batches than stages
#
# In each step, a stage of a pipeline with p stages is idle for the time of `p-1` micro-batches.
# With m of them the bubble is
# `(p-1)/(m+p-1)` of the total, so m should be much larger than p.
#
# But you cannot choose m freely. The batch is given; each replica of the model gets its share of
# the sequences, and cuts this share into micro-batches. Larger micro-batches give larger, more
# efficient matrix products, but there are fewer of them.
#
# Take 8 x 8 x 4 again. How many sequences may a micro-batch have, if it is to be a power of two and
# the bubble is to stay below a tenth?

# %%
lab.ask("micro")
lab.reveal("micro")

# %% [markdown]
# ## Choose
#
# Now you know everything that matters: memory, the traffic of each axis, links, the bubble. Four
# layouts are left to choose from. Each uses the ZeRO stage, the micro-batch and the recomputation
# that suit it best.
#
# - 1 x 1 x 256: ZeRO-3 alone
# - 8 x 1 x 32: tensor parallelism within a node, and data parallelism
# - 4 x 4 x 16: some of each
# - 1 x 16 x 16: no tensor parallelism
#
# Which of them is predicted to take the least time for a step? Give your reason before you look.

# %%
lab.ask("fastest")

# %%
lab.show("grids")
lab.reveal("fastest")

# %% [markdown]
# ## Now your cluster
#
# The table is not a law. With a different network or batch, or twice the GPUs, the order changes,
# but the reasons stay the same. Plan for your own cluster: `zerosim plan --model gpt-3 --gpus 256
# --gpu dgx-a100 --tokens-per-batch 3145728` tries every layout that divides the GPUs evenly, and
# the page Plan shows what limits it.

# %%
lab.end()
