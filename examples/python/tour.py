"""A tour of the Python package, in cells.   usage: python tour.py MODEL.gguf"""

# %% [markdown]
# # Coterie in Python
# A model is a file's description, an engine is a model placed on devices, a generation is one answer.

# %%
import asyncio
import sys

import numpy as np

import coterie

path = sys.argv[1] if len(sys.argv) > 1 else "model.gguf"
model = coterie.Model(path)
print(model.info)
print(coterie.devices()["devices"][0]["model"])

# %% [markdown]
# ## Before loading: would it fit, and how fast would it be?

# %%
print(model.plan(parallel=4, context_tokens=1024))
print(model.plan(machine="4x3090").data["mode"])

# %%
engine = coterie.Engine(model, parallel=4, context_tokens=1024, progress=True)
print(engine)

# %% [markdown]
# ## Chat, as it comes

# %%
answer = engine.chat("Name three fruits.", max_tokens=40, temperature=0)
for event in answer:
    print(event, end="", flush=True)
print(f"\n({answer.finish_reason}, {answer.statistics.generated_tokens} tokens)")

# %% [markdown]
# ## Structured: JSON that fits a schema, tools

# %%
schema = {
    "type": "object",
    "properties": {"fruit": {"enum": ["apple", "pear"]}, "ripe": {"type": "boolean"}},
    "required": ["fruit", "ripe"],
    "additionalProperties": False,
}
wanted = {"type": "json_schema", "json_schema": {"name": "fruit", "schema": schema}}
print(engine.chat("Pick a fruit.", response_format=wanted, max_tokens=60).message())

parameters = {"type": "object", "properties": {"place": {"enum": ["Oslo", "Rome"]}}, "required": ["place"]}
weather = {"type": "function", "function": {"name": "weather", "parameters": parameters}}
print(engine.chat("How is it in Oslo?", [weather], tool_choice="required", max_tokens=80).message())

# %% [markdown]
# ## Several at once, with asyncio


# %%
async def ask(*questions: str) -> list:
    answers = [engine.chat(q, max_tokens=16, temperature=0) for q in questions]
    return await asyncio.gather(*(a.text_async() for a in answers))


# In a notebook, whose loop runs already: await ask(...)
print(asyncio.run(ask("What is red?", "What is blue?", "What is green?")))

# %% [markdown]
# ## Embeddings, logits, likelihoods

# %%
vectors = engine.embed(["a cat", "a kitten", "a tax form"], progress=True)
print(np.round(vectors @ vectors.T, 3))

logits = engine.logits("The capital of France is")
print([model.detokenize([int(t)]) for t in np.argsort(logits)[::-1][:5]])

scores = engine.score(["The cat sat on the mat.", "Mat the on sat cat the."])
print([float(s.sum()) for s in scores])

# %% [markdown]
# ## Branches of one answer

# %%
stem = engine.generate("Once upon a time", max_tokens=8, temperature=0)
stem.text()
print([stem.fork(seed=s, max_tokens=12).text() for s in (1, 2, 3)])
