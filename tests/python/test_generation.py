import json
import threading
import time

import numpy as np
import pytest

import coterie


def test_greedy_tokens_are_those_of_transformers(engine, golden):
    generation = engine.generate(golden.prompt, temperature=0, max_tokens=16, ignore_end=True, logprobs=2)
    events = list(generation)
    assert [e.token for e in events] == golden.greedy
    assert all(e.kind == "token" and len(e.top) == 2 and e.top[0] == (e.token, e.logprob) for e in events)
    assert generation.finish_reason == "length"
    assert generation.tokens == golden.prompt + golden.greedy
    facts = generation.statistics
    assert (facts.prompt_tokens, facts.generated_tokens) == (17, 16)
    assert list(generation) == [] and generation.next() is None


def test_arrays_of_tokens(engine, golden):
    for prompt in (np.array(golden.prompt), np.array(golden.prompt, dtype=np.int32), tuple(golden.prompt)):
        events = list(engine.generate(prompt, temperature=0, max_tokens=3, ignore_end=True))
        assert [e.token for e in events] == golden.greedy[:3]


def test_text_and_timeout(engine):
    generation = engine.generate("once", temperature=0, max_tokens=5)
    assert isinstance(generation.text(), str)
    generation = engine.generate("once", temperature=0, max_tokens=2)
    event, began = None, time.monotonic()
    while event is None and time.monotonic() - began < 30:
        event = generation.next(timeout=0)
    assert event is not None and event.kind == "token"


def test_a_chat_becomes_a_message(engine):
    message = engine.chat("Hi", temperature=0, max_tokens=8).message()
    assert message["role"] == "assistant" and isinstance(message["content"], str)


def test_response_format(engine):
    schema = {
        "type": "object",
        "properties": {"n": {"enum": [1, 2]}},
        "required": ["n"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    answer = json.loads(engine.chat("Hi", response_format=wanted, seed=3).message()["content"])
    assert answer["n"] in (1, 2)
    for wrong in ({"type": "xml"}, {"type": "json_schema"}, {}):
        with pytest.raises(coterie.InvalidArgument):
            engine.chat("Hi", response_format=wrong)


def test_tools(engine):
    tool = {
        "type": "function",
        "function": {
            "name": "pick",
            "parameters": {
                "type": "object",
                "properties": {"x": {"enum": [1, 2]}},
                "required": ["x"],
                "additionalProperties": False,
            },
        },
    }
    choice = {"type": "function", "function": {"name": "pick"}}
    message = engine.chat("Pick", [tool], tool_choice=choice, seed=3, max_tokens=200).message()
    call = message["tool_calls"][0]
    assert call["type"] == "function" and call["function"]["name"] == "pick" and call["id"]
    assert json.loads(call["function"]["arguments"])["x"] in (1, 2)


def test_options_that_are_wrong(engine):
    with pytest.raises(TypeError, match="temprature"):
        engine.generate("x", temprature=1.0)
    with pytest.raises(coterie.InvalidArgument):
        engine.generate("x", temperature=-1.0)
    with pytest.raises(coterie.InvalidArgument):
        engine.generate([])
    with pytest.raises(coterie.InvalidArgument, match="99999"):
        engine.generate([99999])
    with pytest.raises(coterie.InvalidArgument):
        engine.generate("x", max_tokens=0)


def test_bias_stop_and_seed(engine, golden):
    forbidden = golden.greedy[0]
    generation = engine.generate(
        golden.prompt, temperature=0, max_tokens=1, logit_bias={forbidden: float("-inf")}
    )
    assert next(generation).token != forbidden
    texts = [engine.generate("x", seed=5, max_tokens=12, temperature=1.0).text() for _ in range(2)]
    assert texts[0] == texts[1]
    whole = engine.generate("x", temperature=0, max_tokens=12, ignore_end=True).text()
    stop = whole[len(whole) // 2]
    generation = engine.generate("x", temperature=0, max_tokens=12, ignore_end=True, stop=stop)
    assert generation.text() == whole[: whole.index(stop)]
    assert generation.finish_reason == "stop" and generation.stop_string == stop


def test_prefill_events(engine):
    events = list(engine.generate([5] * 100, temperature=0, max_tokens=1, prefill_events=True))
    assert events[0].kind == "prefill" and events[-2].done == events[-2].total == 100


def test_cancel_from_another_thread(fast, endless):
    generation = endless(fast)
    next(generation)
    threading.Timer(0.1, generation.cancel).start()
    for _ in generation:
        pass
    assert generation.finish_reason == "cancelled"


def test_fork_save_restore(engine, golden, tmp_path):
    generation = engine.generate(golden.prompt, temperature=0, max_tokens=8, ignore_end=True)
    list(generation)
    fork = generation.fork(temperature=0, max_tokens=8, ignore_end=True)
    assert [e.token for e in fork] == golden.greedy[8:]
    generation.save(tmp_path / "saved")
    restored = engine.restore(tmp_path / "saved", temperature=0, max_tokens=8, ignore_end=True)
    assert [e.token for e in restored] == golden.greedy[8:]


def test_many_threads(fast):
    texts, errors = {}, []

    def run(i):
        try:
            for _ in range(3):
                texts.setdefault(i % 4, set()).add(
                    fast.generate(f"prompt {i % 4}", temperature=0, max_tokens=10).text()
                )
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and len(texts) == 4


def test_two_threads_share_a_generation(fast):
    generation = fast.generate([1, 2, 3], ignore_end=True, max_tokens=200)
    counts = []

    def run():
        counts.append(sum(1 for _ in generation))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 200


def test_the_lock_is_given_away_while_waiting(fast, endless):
    generation = endless(fast)
    beats = 0
    stop = threading.Event()

    def beat():
        nonlocal beats
        while not stop.is_set():
            beats += 1
            time.sleep(0.001)

    thread = threading.Thread(target=beat)
    thread.start()
    deadline = time.monotonic() + 30
    for _ in generation:
        if beats >= 5 or time.monotonic() > deadline:
            break
    stop.set()
    thread.join()
    generation.close()
    assert beats >= 5


def test_closing_in_any_order(golden, endless):
    engine = coterie.Engine(golden.path, threads=1)
    generation = endless(engine)
    engine.close()
    next(generation)  # a generation keeps its engine
    with pytest.raises(coterie.InvalidArgument, match="closed"):
        engine.generate([1])
    generation.close()
    with pytest.raises(coterie.InvalidArgument, match="closed"):
        next(generation)
    engine.close()


def test_busy(golden, endless):
    with coterie.Engine(golden.path, threads=1, queue=1) as engine:
        running = [endless(engine) for _ in range(2)]
        with pytest.raises(coterie.Busy):
            for _ in range(3):
                running.append(endless(engine))
        for generation in running:
            generation.close()
