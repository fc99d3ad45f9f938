# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What does a probe prove?
#
# A linear probe reads the root of a pointer chain off a residual with an accuracy of 99 %. Does the model *have* the
# root? Does it *use* it? The accuracy alone answers neither: the token at the position may give the label away, a model
# with fresh weights may hold it too, and what can be read may be read by nobody. This notebook asks each of these in
# turn, first of models whose mechanism is written and known, then of trained ones.

# %%
import tempfile
from pathlib import Path

import plotly.io as pio

import workbench
from workbench import figures
from workbench.judgement.words import probes as words
from workbench.probes import PRESETS, ask, causal_test, description_length, probe, selectivity, verdict
from workbench.runs.compiled import compile_run

pio.renderers.default = "plotly_mimetype"
pio.templates.default = "plotly_white"
folder = Path(tempfile.mkdtemp())
MID = "blocks.0.hook_resid_mid"

# %% [markdown]
# ## Where the answer is known
#
# The compiled sorter (Theorem 5.1 of *Improving Length-Generalization in Transformers via Task Hinting*) writes the
# minimum at the delimiter in its first attention layer; before it, the residual there holds the delimiter and nothing
# else. A probe must find it from that layer on, and not before.

# %%
sorter = compile_run("sorter", folder / "sorter", {"q": 9})
minimum = ask(sorter, "minimum")
print(minimum.question)
for finding in minimum.findings:
    print(words.finding(finding))
figures.probe_by_layer(minimum.measured.select(label="minimum"))

# %% [markdown]
# The figure has two lessons. A *baseline* says what is to be had without any computation: whoever always names the
# commonest minimum is right about two times in three, because the minimum of many symbols is mostly the smallest. And
# a *re-initialised model* of the same shape (the best of three) does almost as well as the compiled one: its attention
# averages the input, and a linear probe finds the smallest symbol in that average. That a label is decodable is no sign
# that training put it there.
#
# What tells the two apart is whether the model uses it. The causal test takes the directions in which the minimum can
# be read (found on other sequences, by least-squares concept erasure) and exchanges what lies in them between two
# inputs. The answer at the delimiter should become the other input's; an edit of the same size with an input of the
# *same* minimum, or along as many other directions, should do less, and so should the same test in uninformed
# models (re-initialised, or of these weights shuffled). `ask` tests every point at which a label can be read.

# %%
use = causal_test(sorter, "minimum", point=MID, positions="delimiter")["delimiter"]
print(use.verdict())
figures.probe_use(use.effect)

# %% [markdown]
# How many answers change does not tell the edit from one along other directions: all answers from ⊥ on are counted, and
# only the first is made there. What it becomes does: the other input's after the label's edit, always; along other
# directions one time in ten. That is 90 points more, where uninformed models reach 10. (Two inputs with the same
# minimum differ hardly at all in these directions, so that edit stays the smaller one, as the sizes say.)
#
# ## A trained model: decodable, and not used
#
# One ChaCAL layer follows a whole chain, because it sums paths of every length. Are the ancestors on the way known too?

# %%
chacal = workbench.train("chain-chacal", out=folder / "chacal", progress=False)
hops = ask(chacal, "hops", seed=0)
figures.probe_map(hops.measured)

# %%
for finding in hops.findings:
    print(words.finding(finding))

# %% [markdown]
# The ancestors two and more hops up can be read after attention, far better than from the token alone, and far better
# than from re-initialised models. Exchanging them there changes no more than an exchange with an input of the same
# label: the layer mixes in all positions of the chain, so they are there, but only the root's value is read by what
# comes after. With the root's directions exchanged, every answer becomes the other input's. (At the second point, after
# the MLP, the same is said of the ancestors three hops up and further; of the second it is not told.) This is the
# difference between *decodable* and *used*, in one model.
#
# ## How plainly is it held?
#
# Accuracy after much training of the probe hides how hard it had to look. Two numbers say it: how many sequences it
# needs (the learning curve), and how many bits the labels cost when they are sent in blocks, each coded by the probe
# fitted so far (Voita and Titov 2020). A cost above that of knowing nothing is what a wrong code costs.

# %%
root = description_length(chacal, "root", points=MID, n=512)
figures.probe_learning(root.curve, root.bits)

# %%
ancestor = description_length(chacal, "ancestor_4", points=MID, n=512)
for name, found in (("root", root), ("ancestor 4", ancestor)):
    cost = {key: round(float(found.bits.select(condition=key).values), 2) for key in found.bits.coords["condition"]}
    print(f"{name}: {cost} bits a label; {found.uniform:.2f} if nothing is known")

# %% [markdown]
# ## What can the probe itself learn?
#
# A strong probe can learn things that the model did not compute. Hewitt and Liang (2019) give each token a random class
# and see whether the probe learns that: the *control task*. Selectivity is the accuracy on the label less that on the
# control task. On residuals that hold the token itself, which is nearly everywhere in models with few tokens, nearly
# every probe learns the control task, and selectivity is no help: the baseline `current token` is the one to look at.
# Other kinds of probe say what form the label has: a linear one reads a sum, one of low rank few directions.

# %%
for kind, settings in (("logistic", {}), ("nearest_mean", {}), ("low_rank", {"rank": 4}), ("mlp", {})):
    found = probe(chacal, "root", points=MID, kind=kind, n=256, **settings)
    print(f"{kind:13} {verdict(found)}; selectivity {float(selectivity(found).values):+.0%}")

# %% [markdown]
# ## Does Seq-VCR, or thinking time, change what is held?
#
# The Seq-VCR paper trains multiplication digit by digit: with the plain loss, with Seq-VCR, and with pause tokens
# before the answer. Each is trained here for 200 steps (the preset takes 1,200, the paper far more), one seed: what
# follows is how one asks, not what the paper finds.

# %%
presets = ("multiply-vanilla", "multiply-seqvcr", "multiply-pause")
runs = {name: workbench.train(name, out=folder / name, steps=200, progress=False) for name in presets}
for name, run in runs.items():
    print(f"{name}: {run.metrics()['accuracy'].dropna().iloc[-1]:.1%} of the digits right")

# %%
carries = {name: ask(run, "carry", n=1024) for name, run in runs.items()}
for name, answer in carries.items():
    print(name)
    for finding in answer.findings:
        print("  " + words.finding(finding).replace("\n", "\n  "))

# %% [markdown]
# In each of the three the last of the carries is used, the one into the highest digit: about three answers in four or
# more become the other input's. Of the others it is not told, since an exchange with an input of the same carry changes
# about as many answers; the middle one can be read as well from models with fresh weights. None of this tells the three
# ways of training apart.

# %%
figures.probe_map(carries["multiply-vanilla"].measured.select(label="carry"))

# %%
figures.probe_map(carries["multiply-seqvcr"].measured.select(label="carry"))

# %% [markdown]
# ## Answer
#
# An accuracy proves little by itself. Beside its baselines it shows that a label *can be read*: the current token, the
# commonest label and shuffled labels say what is no work of the layers, re-initialised models what is no work of
# training, the learning curve and the description length how plainly it is held. That the model *uses* it takes an edit
# of exactly these directions, beside edits that should do nothing and uninformed models. In the compiled sorter the
# minimum is used where it is written. In a trained ChaCAL layer the ancestors three hops up and further are decodable
# and not used, and the root is both. All of this is one seed of small models; intervals are over held-out sequences.

# %%
for name, preset in PRESETS.items():
    print(f"{name:17} {', '.join(preset.tasks) or 'any task'}: {preset.question}")
