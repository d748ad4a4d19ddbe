# A lesson of zerosim in percent format: `python lessons/lesson24_deepspeed_engine.py` runs it, an
# editor opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson24_deepspeed_engine")

# %% [markdown]
# # DeepSpeed's engine, function by function
#
# You know what DeepSpeed sends. This lesson shows which function sends it. Each call of a trace
# names the functions between the line of the program and the call: those of DeepSpeed or of
# zerosim's engine, depending on which of the two trains. So you can walk through the source
# without a debugger: read the table, and open the file at the line.
#
# One program, `lessons/programs/hugging_face.py`, was run by both engines: a GPT of GPT-2's shape,
# two micro-steps in a step, and buckets so small that one backward fills several of them.
# DeepSpeed is not installed with zerosim; its runs were recorded beforehand. This is the run with
# stage 2.

# %%
lab.show("asked", "walk-deepspeed/stage-2", "walk/stage-2")

# %% [markdown]
# ## initialize
#
# `deepspeed.initialize()` chooses the engine: `DeepSpeedEngine`, unless the model is a
# `PipelineModule`. `DeepSpeedEngine.__init__` broadcasts every parameter (`_broadcast_model`);
# `_configure_zero_optimizer()` then chooses the class that trains. In stages 1 and 2 it is one
# class, `DeepSpeedZeroOptimizer`: it flattens each parameter group and cuts it into even parts.
#
# In stage 3 it is `DeepSpeedZeroOptimizer_Stage3`. It creates a `DeepSpeedZeRoOffload`, which
# passes each parameter through `Init`: broadcast from one rank, then `partition`. Parameter groups
# become sub-groups, which are updated one after another. `create_reduce_and_remove_grad_hooks`
# attaches a hook to each parameter, and gathers the parameter for that. How many calls does this
# take for each parameter?

# %%
lab.ask("setup")

# %%
lab.record("walk/stage-1", "walk/stage-2", "walk/stage-3")

# %%
lab.show(
    "way", "walk-deepspeed/stage-3", "walk/stage-3", "initialize", "broadcast initial state",
    "_zero_init_param",
)  # fmt: skip
lab.reveal("setup")

# %% [markdown]
# ## The path of a gradient
#
# In stages 1 and 2 forward needs nothing special: each rank has all parameters. In backward,
# autograd computes a parameter's gradient and calls its hook: `grad_handling_hook` in stage 2,
# `reduce_partition_and_remove_grads` in stage 3, which was once its name in all stages. The hook
# copies the gradient into a bucket. "ipg" in many names stands for independent parallel gradient:
# one that can be reduced while backward continues.
#
# If a gradient no longer fits, the bucket is sent first: `reduce_ipg_grads()`, `average_tensor()`,
# and by default an all-reduce. Then the owner of each part copies it out, and in stage 2 the other
# ranks free it. Backward fills three buckets here. How many of them does a hook send?

# %%
lab.ask("hook")

# %%
lab.show("way", "walk-deepspeed/stage-2", "walk/stage-2", "backward", "reduce gradients")
lab.reveal("hook")

# %% [markdown]
# ## When backward is over
#
# `engine.backward(loss)` runs autograd (through `optimizer.backward()` in older versions, which
# scales the loss), and then `_backward_epilogue()`. The latter calls `allreduce_gradients()`:
# stage 1 calls `reduce_gradients()`, and only in the last micro-step, at the boundary of
# accumulation; stages 2 and 3 call `overlapping_partition_gradients_reduce_epilogue()` in each.
# Both end in the same function, which sends what is left in a bucket.
#
# Put the functions of stage 1 in order, the outermost first.

# %%
lab.ask("order")

# %%
lab.show(
    "way", "walk-deepspeed/stage-1", "walk/stage-1", "backward", "reduce gradients",
    "reduce_gradients",
)  # fmt: skip
lab.reveal("order")

# %% [markdown]
# ## step
#
# `engine.step()` counts the micro-step, and at the boundary calls `optimizer.step()`. The next
# steps are the same in all stages: check whether a gradient overflowed, update the `LossScaler`,
# compute the norm, update this rank's own part (`_optimizer_step`), copy it into the parameters.
# Then stages 1 and 2 gather: `all_gather_dp_groups`.
#
# `check_overflow` is intended for fp16, whose loss is scaled by a `DynamicLossScaler`. These runs
# are in bf16, whose range is that of fp32, and their `LossScaler` has the scale one. Do the ranks
# of stage 2 still exchange an overflow flag?

# %%
lab.ask("overflow")

# %%
lab.show("way", "walk-deepspeed/stage-2", "walk/stage-2", "update", "gather parameters")
lab.reveal("overflow")

# %% [markdown]
# ## Fetching in stage 3
#
# In stage 3 every module has hooks around its forward and its backward. They call the
# `PartitionedParameterCoordinator`: `fetch_sub_module()` before, `release_sub_module()` after. The
# first micro-step records the order in which the modules compute. From the second on the
# coordinator knows it, compares it with the other ranks', and fetches ahead: the next parameters
# in that order, while a module computes.
#
# The prefetch skips parameters that are already present, and a skipped parameter is not released
# before its next use. For the prefetch, forward and backward are one sequence. The first micro-step
# gathers in both. What does the second one gather in backward?

# %%
lab.ask("fetch")

# %%
lab.show("way", "walk-deepspeed/stage-3", "walk/stage-3", "forward", "gather parameters")
lab.reveal("fetch")

# %% [markdown]
# ## Compared with zerosim's engine
#
# After its update, stage 3 releases all parameters (`partition_all_parameters`) and gathers only
# the smallest ones, to keep them whole. It does not gather all parameters.
#
# Read the whole table. For each step it lists the function of DeepSpeed and the corresponding
# function of zerosim's engine; "nothing" means that zerosim does not need this step. zerosim
# broadcasts its initial weights once, unit by unit; its ranks need not compare their orders,
# because there is only one order; and it keeps no parameters gathered.
#
# Some functions in this lesson appear in none of the tables, because they call no collective.
# Which of these is one of them?

# %%
lab.ask("silent")

# %%
lab.show("asked", "walk-deepspeed/stage-1", "walk/stage-1")
lab.show("asked", "walk-deepspeed/stage-3", "walk/stage-3")
lab.reveal("silent")

# %%
lab.end()
