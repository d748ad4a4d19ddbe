# A lesson of zerosim in percent format: `python lessons/lesson21_half_precision.py` runs it, an
# editor opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson21_half_precision")

# %% [markdown]
# # Half precision, on one machine
#
# Most lessons train in mixed precision, and the first one counts sixteen bytes for it without
# giving a reason. This lesson explains why. It needs one process and a few numbers, so you can take
# it right after the first lesson. Another lesson shows mixed precision on several ranks.
#
# Two formats of two bytes are in use. A number has a sign, an exponent, which says how large it
# is, and a fraction, which says where it lies between two powers of two. The formats differ in how
# they divide their bits, and everything below follows from that.

# %%
lab.show("formats")
lab.replay("alone/stage-0", at="update")

# %% [markdown]
# ## Marks on a ruler
#
# Between one and two a format has one number for each bit pattern of its fraction, evenly spaced.
# Between two and four they are twice as far apart, and so on: a ruler whose marks are further apart
# at larger numbers.
#
# A weight of one gets small updates, each as large as the learning rate that the lessons use. It
# is kept in fp32, as the master, and rounded to bf16 for each forward. After how many updates does
# forward see a different weight for the first time?

# %%
lab.ask("seen")

# %%
lab.show("updates", "ring/stage-3")
lab.reveal("seen")

# %% [markdown]
# ## Sixteen bytes
#
# So the optimizer keeps its own copy in fp32. It also keeps its averages of gradients and of their
# squares in fp32, because these are sums of small numbers, too. Forward and backward compute with
# the parameters and gradients, and the ranks send them; they have two bytes each.
#
# How many of the bytes belong to the optimizer? The ZeRO paper calls this number K. Here is a
# single process that trains in fp16; you will look into its memory.

# %%
lab.ask("optimizer")

# %%
lab.record("alone/stage-0")

# %%
lab.show("roles", "alone/stage-0")
lab.reveal("optimizer")

# %% [markdown]
# ## Too small: zero
#
# fp16 has more bits in its fraction than bf16, and fewer in its exponent. A number smaller than
# half of its smallest positive number becomes zero, and many gradients are that small. So the loss
# is multiplied by a scale, and by the chain rule so is each gradient. The optimizer divides by it,
# in fp32.
#
# Take a gradient that fp16 cannot represent, and the scale with which the run begins. What is the
# value of the fp16 gradient after backward?

# %%
lab.ask("vanishes")
lab.reveal("vanishes")

# %% [markdown]
# ## Too large: infinity
#
# At the other end is infinity. With a large scale, gradients may reach it, and they cannot return:
# infinity divided by the scale is infinity. bf16 has the exponent range of fp32, and hardly ever
# overflows.
#
# Here is a value that a scaled gradient might take. Which format turns it into infinity?

# %%
lab.ask("infinite")
lab.reveal("infinite")

# %% [markdown]
# ## A skipped step
#
# Before it updates, the optimizer looks for infinities. If it finds one, it updates no weight and
# no average and halves the scale, and the batch is lost. That is why the number of steps and the
# number of updates are not the same, and why a learning rate schedule should count the updates.
#
# The run that you recorded has a learning rate that is deliberately too high. The question gives
# its loss scale at the beginning and at the end. How often was the model updated?

# %%
lab.ask("updates")

# %%
lab.show("scaling", "alone/stage-0")
lab.reveal("updates")

# %%
lab.end()
