import numpy as np
import pytest

import coterie


def close(got, want):
    return np.sum((got - want) ** 2) / np.sum(want**2) < 1e-9


def test_embeddings_are_transformers_hidden_states(engine, golden):
    raw = engine.embed(golden.prompt, pooling="mean", normalize=False)
    assert raw.dtype == np.float32 and raw.shape == (golden.hidden.shape[1],)
    assert close(raw, golden.hidden.mean(axis=0))
    last = engine.embed([golden.prompt, golden.prompt[:5]], pooling="last")
    assert close(last[0], golden.hidden[-1] / np.linalg.norm(golden.hidden[-1]))
    assert close(last[1], golden.hidden[4] / np.linalg.norm(golden.hidden[4]))
    first = engine.embed(np.array(golden.prompt), pooling="cls", dimensions=8)
    assert close(first, golden.hidden[0, :8] / np.linalg.norm(golden.hidden[0, :8]))
    with pytest.raises(coterie.InvalidArgument):
        engine.embed("x", pooling="max")


def test_texts(engine):
    rows = engine.embed(["one", "two", "one"])
    assert rows.shape == (3, engine.model.info.embedding)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1) and np.array_equal(rows[0], rows[2])
    assert np.array_equal(engine.embed("one"), rows[0])
    assert engine.embed([]).shape == (0, engine.model.info.embedding)


def test_logits(engine, golden):
    rows = engine.logits(golden.prompt, rows="all")
    assert rows.flags["C_CONTIGUOUS"] and rows.shape == golden.logits.shape
    assert close(rows, golden.logits)
    assert close(engine.logits(golden.prompt), golden.logits[-1])
    with pytest.raises(coterie.InvalidArgument):
        engine.logits([])
    with pytest.raises(coterie.InvalidArgument):
        engine.logits("x", rows="first")


def test_scores(engine, golden):
    log = golden.logits - np.log(np.exp(golden.logits).sum(axis=1, keepdims=True))
    want = np.array([0.0] + [log[i, token] for i, token in enumerate(golden.prompt[1:])])
    scores = engine.score([golden.prompt, golden.prompt[:3]])
    assert np.allclose(scores[0], want, atol=2e-5) and np.allclose(scores[1], want[:3], atol=2e-5)
    assert engine.score("a text").shape == (len(engine.model.tokenize("a text")),)


def test_progress_and_cancelling(engine, golden):
    told = []
    engine.embed([golden.prompt] * 5, progress=lambda *p: told.append(p))
    assert told[-1][0] == "embedding" and told[-1][1] == told[-1][2] == 5 * len(golden.prompt)
    with pytest.raises(coterie.Cancelled):
        engine.score([golden.prompt] * 5, progress=lambda *_: False)
    assert engine.logits(golden.prompt, progress=True).shape == (golden.logits.shape[1],)


def test_too_long(engine):
    with pytest.raises(coterie.InvalidArgument, match="2000"):
        engine.embed([[1] * 2000])
    assert engine.embed([1] * 2000, truncate=True).shape == (engine.model.info.embedding,)
