"""The tiny models of tests/data/golden, and engines on them that compute exactly."""

import json
import pathlib

import numpy as np
import pytest

import coterie

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "data" / "golden"


class Golden:
    """A model's file, and what transformers computed with it in float64."""

    def __init__(self, name):
        self.path = GOLDEN / f"{name}.gguf"
        facts = json.loads((GOLDEN / f"{name}.json").read_text())
        self.prompt, self.greedy = facts["prompt"], facts["greedy"]
        self.logits = np.fromfile(GOLDEN / f"{name}.logits.bin", "<f8").reshape(facts["shape"])
        self.hidden = np.fromfile(GOLDEN / f"{name}.hidden.bin", "<f8").reshape(len(self.prompt), -1)


@pytest.fixture(scope="session")
def golden():
    return Golden("qwen3moe")


@pytest.fixture(scope="session")
def model(golden):
    return coterie.Model(golden.path)


@pytest.fixture(scope="session")
def engine(model):
    """For exact numbers."""
    return coterie.Engine(model, devices="reference", key_type="f32", value_type="f32", context_tokens=1024)


@pytest.fixture()
def fast(model):
    """For several at once."""
    with coterie.Engine(model, context_tokens=4096, parallel=4, threads=1) as engine:
        yield engine


def endless(engine, **options):
    """A generation that ends only when it is cancelled."""
    return engine.generate([1, 2, 3], ignore_end=True, shift_context=True, **options)


@pytest.fixture(name="endless")
def endless_fixture():
    return endless
