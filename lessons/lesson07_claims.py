# A lesson of zerosim in percent format: `python lessons/lesson07_claims.py` runs it, an editor
# opens it as a notebook, and `zerosim serve` shows it on the page "Lessons".

# %%
from zerosim.lessons.lab import Lab

lab = Lab("lesson07_claims")

# %% [markdown]
# # The claims lab
#
# Sooner or later you will read about ZeRO somewhere else: in an article, on a slide, in a chatbot's
# answer. Some of it is right. Some of it was right under a condition that was lost in copying. Some
# of it was never right and was copied anyway.
#
# You can now judge such claims. First, translate the claim into numbers. Theory gives its own
# numbers, and a run gives the measured ones. Then the claim is true, false, or true only under a
# condition that you can state. No verdict in this lesson is written by hand: each is computed from
# the expressions in `claims.toml`.

# %% [markdown]
# ## How much is saved?
#
# The first claim is on nearly every slide, and it sounds like a law of nature: each stage saves
# memory by a fixed factor, the last one by the number of ranks. You know what a rank holds in each
# stage, with Adam in mixed precision: whole parameters, a share of the optimizer states, and so
# on.
#
# Take the sentence literally. Then compute the factors for the few ranks of your own runs. The
# figure shows both beside the measurement.

# %%
lab.ask("saves")
lab.ask("saves_here")

# %%
lab.show("claim", "saves")
lab.reveal("saves")
lab.reveal("saves_here")

# %% [markdown]
# ## What a model needs
#
# Here is a rule of thumb by which people buy hardware. It takes the weights in half precision and
# adds the optimizer states. You can check the sum in your head, and it is right. That is what
# makes it so convincing.
#
# So is there anything wrong? Go through the roles of the very first lesson one by one, those that
# every data-parallel rank keeps for each parameter, and tick off what the sentence counts.

# %%
lab.ask("seven")

# %%
lab.show("claim", "seven-billion")
lab.reveal("seven")

# %% [markdown]
# ## One word in a description
#
# Descriptions of the stages walk through a step: which rank computes, which rank sends data to
# which, which rank updates. Often there is one word in them that is never checked, because the
# result is the same: the sum of all gradients arrives where it is needed, whichever collective
# brought it there.
#
# In the lesson on the three ledgers, you saw what such a word can cost. Is this word right?

# %%
lab.ask("all_reduce")

# %%
lab.show("claim", "all-reduce")
lab.reveal("all_reduce")

# %% [markdown]
# ## Even the paper
#
# The last claim is the paper's own: how much is communicated in a step of each of the three
# stages. It may be the most useful line ever written about ZeRO, and you have relied on it
# throughout. Still, your own runs have shown numbers that disagree with it. Are these runs wrong,
# or is the paper?
#
# Decide on a verdict. Then run ZeRO-3 once more, with the backend's own collectives, and compare
# the line with each of your numbers.

# %%
lab.ask("traffic")

# %%
lab.record("native/stage-3")

# %%
lab.show("claim", "two-two-three")
lab.reveal("traffic")

# %% [markdown]
# ## All of them
#
# This is the whole collection. You have not judged some of these claims yet: the famous picture of
# four bars, mostly shown without its caption; the formulas with M, in which the wrong states are
# divided; and a sentence about the update of ZeRO-3, which one step of zerosim refutes and which a
# program in a later lesson confirms. Cover the right-hand side, judge each of them, and say which
# number would have to be different.
#
# `python -m zerosim.lessons.claims` prints each of them with its reasons. When you next come across
# a claim, add it to the file: what it says, what theory says, what a run measures.

# %%
lab.show("figure_one")
lab.show("verdicts")

# %%
lab.end()
