import pickle

import numpy as np
import pytest

import coterie


def test_info_and_metadata(model):
    assert model.info.experts == 8 and model.info.experts_used == 3
    assert model.metadata("general.architecture") == "qwen3moe"
    with pytest.raises(coterie.NotFound) as caught:
        model.metadata("no.such.key")
    assert caught.value.status == coterie.Status.NOT_FOUND and "no.such.key" in str(caught.value)
    assert isinstance(caught.value, LookupError)
    assert model.sampling_defaults["source"] == "family"


def test_tokens_there_and_back(model):
    for text in ("Hello, world", "Grüße, 世界 🎈", "", "a\0b"):
        tokens = model.tokenize(text, add_special=False)
        assert model.detokenize(tokens) == text
        assert model.detokenize(np.array(tokens, dtype=np.int64)) == text
    assert not model.is_end(0)
    assert not model.is_end(-5)


def test_render(model):
    prompt = model.render([{"role": "user", "content": "Hi there"}])
    assert "Hi there" in prompt
    assert model.render("Hi there") == prompt
    assert model.render("Hi there", add_generation_prompt=False) != prompt
    with pytest.raises(TypeError, match="no_such"):
        model.render("x", no_such=1)


def test_plan(model):
    here = model.plan(context_tokens=128)
    assert here.fits and here.data["context_tokens"] == 128 and "weights" in str(here)
    there = model.plan(machine="4x3090", parallel=2)
    assert there.fits and len(there.data["ranks"]) >= 1
    with pytest.raises(coterie.InvalidArgument):
        model.plan(machine="4x3090", devices="cpu")


def test_devices():
    found = coterie.devices()
    assert found["devices"][0]["name"] == "cpu" and found["devices"][0]["cores"] >= 1


def test_a_file_that_is_not_there_or_no_model(tmp_path):
    with pytest.raises(coterie.NotFound, match="nowhere"):
        coterie.Model("/nowhere/model.gguf")
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF" + b"\xff" * 100)
    with pytest.raises(coterie.Error) as caught:
        coterie.Model(bad)
    assert caught.value.status in (coterie.Status.BAD_MODEL, coterie.Status.UNSUPPORTED)


def test_closed_and_pickled(golden, engine):
    with coterie.Model(golden.path) as model:
        assert model.info.layers > 0
    with pytest.raises(coterie.InvalidArgument, match="closed"):
        model.tokenize("x")
    model.close()
    for thing in (model, engine, engine.generate([1], max_tokens=1)):
        with pytest.raises(TypeError, match="can't be pickled"):
            pickle.dumps(thing)


def test_progress_is_told_and_cancels(golden):
    told = []
    coterie.Engine(
        coterie.Model(golden.path, progress=lambda *p: told.append(p)), progress=lambda *p: told.append(p)
    ).close()
    assert any(what == "loading" for what, _, _ in told)
    assert all(0 <= done <= total for _, done, total in told)
    with pytest.raises(coterie.Cancelled):
        coterie.Engine(golden.path, progress=lambda *_: False)
    with pytest.raises(ZeroDivisionError):
        coterie.Engine(golden.path, progress=lambda *_: 1 / 0)
    coterie.Engine(golden.path, progress=True).close()  # tqdm


def test_logs_and_events(golden, caplog):
    import logging

    events = []
    with caplog.at_level(logging.INFO, "coterie.test"):
        with coterie.Engine(golden.path, log=logging.getLogger("coterie.test"), events=events.append) as engine:
            assert engine.state == coterie.EngineState.READY
            assert engine.description["state"] == "ready"
            assert "rank 0" in str(engine)
    assert any("rank 0" in record.getMessage() for record in caplog.records)
    assert any(e.kind == "state" and e.state == coterie.EngineState.READY for e in events)
    assert any(e.kind == "progress" and e.total > 0 for e in events)


def test_a_listener_that_raises_is_reported_and_does_no_harm(golden, monkeypatch):
    import sys

    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: reported.append(args.exc_type))
    coterie.Engine(golden.path, log=lambda *_: 1 / 0).close()
    assert ZeroDivisionError in reported
