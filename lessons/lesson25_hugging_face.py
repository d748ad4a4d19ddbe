# A lesson of zerosim in percent format: `python lessons/lesson25_hugging_face.py` runs it, an
# editor opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson25_hugging_face")

# %% [markdown]
# # A configuration and a Hugging Face loop
#
# Many articles on ZeRO end with a few lines like these. Here you run them.
#
# ```python
# engine, *_ = deepspeed.initialize(
#     model=model,
#     model_parameters=model.parameters(),
#     config_params=config,
# )
# for tokens in batches:
#     outputs = engine(
#         input_ids=tokens, labels=tokens
#     )
#     engine.backward(outputs.loss)
#     engine.step()
# ```
#
# The model is `GPT2LMHeadModel`, small and with random weights, from transformers if that is
# installed, otherwise from `lessons/programs/gpt2.py`. `import zerosim as deepspeed` trains it with
# zerosim's engine; a run of DeepSpeed itself with the same lines was recorded beforehand.

# %%
lab.graph("hugging-face/stage-2")

# %% [markdown]
# ## The configuration
#
# ```json
# {
#   "train_batch_size": 16,
#   "train_micro_batch_size_per_gpu": 2,
#   "gradient_accumulation_steps": 4,
#   "optimizer": {
#     "type": "AdamW",
#     "params": {"lr": 0.001, "torch_adam": true}
#   },
#   "bf16": {"enabled": true},
#   "zero_optimization": {
#     "stage": 2,
#     "allgather_partitions": true,
#     "allgather_bucket_size": 2e8,
#     "overlap_comm": true,
#     "reduce_scatter": true,
#     "reduce_bucket_size": 2e8,
#     "contiguous_gradients": true
#   }
# }
# ```
#
# Articles use fp16, for which DeepSpeed has no operators on a CPU; bf16 sends the same number of
# bytes. The first three keys depend on each other: all ranks together read a batch in a step, and
# one rank reads a micro-batch in a forward. If the keys contradict each other, DeepSpeed refuses to
# start.

# %%
lab.ask("ranks")

# %%
lab.record("hugging-face/stage-1", "hugging-face/stage-2", "hugging-face/stage-3")

# %%
lab.reveal("ranks")

# %% [markdown]
# ## What it sends
#
# In stage 2 a rank keeps a share of the gradients, so they are reduced in each micro-step, and the
# updated parameters are gathered once. `reduce_scatter` is true. You know the law, and you know
# DeepSpeed's default.
#
# You can compute the traffic before anything runs: `zerosim.deepspeed.explain` reads the file. But
# first predict: how much does DeepSpeed itself communicate in a step with this configuration?

# %%
lab.ask("sent")

# %%
lab.show("told")
lab.show("micro_steps", "hugging-face-deepspeed/stage-2", "hugging-face/stage-2")
lab.reveal("sent")

# %% [markdown]
# ## A bucket
#
# `reduce_bucket_size` and `allgather_bucket_size` are numbers of elements. With
# `contiguous_gradients` a backward copies gradients into one long buffer, which DeepSpeed reserves
# at the maximum size of a bucket, so that gradients do not fragment the memory.
#
# The smallest GPT-2 has fewer parameters than such a bucket has elements, and our model has far
# fewer. So there is one bucket, which is sent when backward is over. `overlap_comm` has nothing to
# overlap with. How much memory does a rank of DeepSpeed reserve for gradients?

# %%
lab.ask("bucket")

# %%
lab.show("peaks", "hugging-face-deepspeed/stage-2", "hugging-face/stage-2")
lab.reveal("bucket")

# %% [markdown]
# ## Key by key
#
# How does the traffic change if one key is changed? Some keys determine the bytes, others the
# number of calls, their time, or the place of the gradients in memory.
#
# Before you look at the table: suppose that `reduce_scatter` is set to false, and everything else
# stays as it is. How much does DeepSpeed then send, compared with before?

# %%
lab.ask("scatter")

# %%
lab.show("keys")
lab.reveal("scatter")

# %% [markdown]
# ## For and against each stage
#
# In stage 1, only the optimizer states are sharded. It sends the least, however many micro-steps
# there are, but keeps whole gradients. In stage 2, the gradients are sharded as well, at the price
# of a reduction in each micro-step. In stage 3, the parameters are sharded, too, so only the total
# memory of the devices limits the model. The parameters are gathered twice in each micro-step, and
# a rank waits for each gather that is not prefetched.
#
# So use the lowest stage that fits. Before you choose: put the three in order by the traffic of a
# step of this loop.

# %%
lab.ask("stages")

# %%
lab.show("handed", "hugging-face/stage-1", "hugging-face/stage-2", "hugging-face/stage-3")
lab.show("trade")
lab.reveal("stages")

# %%
lab.end()
