"""Thinking, tools, formats: models of random weights whose answers a grammar dictates, through whole requests."""
import json

import ollama
import openai
import pytest
import requests

HELLO = [{"role": "user", "content": "Weather?"}]
WEATHER = {"type": "function", "function": {"name": "weather", "description": "The weather of a place.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]},
                                     "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 3}},
    "required": ["city"], "additionalProperties": False}}}
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}


def gbnf(text):
    return "root ::= " + json.dumps(text)


THOUGHT = gbnf("<think>\nLet me see.\n</think>\n\nFour, I say.")
CALLS = gbnf('<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>\n'
             '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>')


def ask(server, path, **more):
    body = {"model": "thinker", "messages": HELLO, "stream": False, "options": {"num_predict": 300}, **more}
    if path.startswith("/v1"):
        body.pop("options")
        body.setdefault("max_tokens", 300)
    return requests.post(server.url + path, json=body, timeout=60)


def ndjson(reply):
    return [json.loads(line) for line in reply.content.splitlines()]


def events(reply):
    texts = reply.content.decode().split("\n\n")
    assert texts[-2:] == ["data: [DONE]", ""]
    return [json.loads(text[6:]) for text in texts[:-2] if text.startswith("data: ")]


def test_thinking_is_apart_at_ollamas_endpoints(other):
    for think in (None, True, "high"):
        more = {} if think is None else {"think": think}
        answer = ask(other, "/api/chat", grammar=THOUGHT, **more).json()
        assert answer["message"] == {"role": "assistant", "content": "Four, I say.", "thinking": "Let me see."}
        answer = ask(other, "/api/generate", prompt="Hello", grammar=THOUGHT, **more).json()
        assert answer["response"] == "Four, I say." and answer["thinking"] == "Let me see."
    chunks = ndjson(ask(other, "/api/chat", grammar=THOUGHT, stream=True))
    assert "".join(c["message"].get("thinking", "") for c in chunks) == "Let me see."
    assert "".join(c["message"]["content"] for c in chunks) == "Four, I say."
    assert all(c["message"]["content"] == "" for c in chunks if c["message"].get("thinking"))
    assert not any("<" in json.dumps(c["message"]) for c in chunks)
    chunks = ndjson(ask(other, "/api/generate", prompt="x", grammar=THOUGHT, stream=True))
    assert "".join(c["response"] for c in chunks) == "Four, I say." and all("response" in c for c in chunks)


def test_thinking_off_means_off(other):
    answer = ask(other, "/api/chat", think=False, grammar=gbnf("Four.")).json()
    assert answer["message"] == {"role": "assistant", "content": "Four."}
    assert ask(other, "/api/chat", think="sometimes").status_code == 400
    assert "capabilities" in requests.post(other.url + "/api/show", json={"model": "thinker"}).json()
    shown = requests.post(other.url + "/api/show", json={"model": "thinker"}).json()
    assert set(shown["capabilities"]) == {"completion", "tools", "thinking"}


def test_thinking_under_both_names(other):
    message = ask(other, "/v1/chat/completions", grammar=THOUGHT).json()["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "Four, I say.", "reasoning": "Let me see.",
                       "reasoning_content": "Let me see."}
    deltas = [e["choices"][0]["delta"] for e in events(ask(other, "/v1/chat/completions", grammar=THOUGHT, stream=True))]
    assert deltas[0] == {"role": "assistant", "content": ""} and deltas[-1] == {}
    for key in ("reasoning", "reasoning_content"):
        assert "".join(d.get(key, "") for d in deltas) == "Let me see."
    assert "".join(d.get("content", "") for d in deltas) == "Four, I say."
    for more in ({"reasoning_effort": "none"}, {"think": False}, {"enable_thinking": False},
                 {"chat_template_kwargs": {"enable_thinking": False}}, {"reasoning": {"effort": "none"}}):
        message = ask(other, "/v1/chat/completions", grammar=gbnf("Four."), **more).json()["choices"][0]["message"]
        assert message == {"role": "assistant", "content": "Four."}


def test_an_answer_that_only_thinks(other):
    answer = ask(other, "/api/chat", grammar=gbnf("<think>\nEndless"), options={"num_predict": 12}).json()
    assert answer["message"]["content"] == "" and answer["message"]["thinking"] and answer["done_reason"] == "length"


def test_a_format_begins_after_the_thinking(other):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "enum": [3, 5]}}, "required": ["n"],
              "additionalProperties": False}
    answer = ask(other, "/api/chat", think=False, format=schema).json()
    assert json.loads(answer["message"]["content"])["n"] in (3, 5)
    # With thinking on the model may think as long as it likes; what follows is the schema's.
    bias = {}  # of the end of the thinking nothing is known here: the random model may never end it
    answer = ask(other, "/api/chat", think=True, format=schema, options={"num_predict": 200, **bias}).json()
    content = answer["message"]["content"]
    assert content == "" and answer["done_reason"] == "length" or json.loads(content)["n"] in (3, 5)
    strict = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    answer = ask(other, "/v1/chat/completions", think=False, response_format=strict).json()
    assert json.loads(answer["choices"][0]["message"]["content"])["n"] in (3, 5)


def test_calls_are_told_apart(other):
    answer = ask(other, "/api/chat", tools=[WEATHER, CLOCK], grammar=CALLS).json()
    calls = answer["message"]["tool_calls"]
    assert answer["message"]["content"] == "" and answer["done_reason"] == "stop"
    assert [c["function"] for c in calls] == [{"index": 0, "name": "weather", "arguments": {"city": "Rome"}},
                                             {"index": 1, "name": "clock", "arguments": {}}]
    assert len({c["id"] for c in calls}) == 2
    chunks = ndjson(ask(other, "/api/chat", tools=[WEATHER, CLOCK], grammar=CALLS, stream=True))
    streamed = [c for chunk in chunks for c in chunk["message"].get("tool_calls", [])]
    assert [c["function"] for c in streamed] == [c["function"] for c in calls]
    assert "".join(c["message"]["content"] for c in chunks).strip() == ""


def test_calls_in_openais_stream(other):
    whole = ask(other, "/v1/chat/completions", tools=[WEATHER, CLOCK], grammar=CALLS).json()["choices"][0]
    assert whole["finish_reason"] == "tool_calls" and "content" in whole["message"]
    assert [json.loads(c["function"]["arguments"]) for c in whole["message"]["tool_calls"]] == [{"city": "Rome"}, {}]
    stream = events(ask(other, "/v1/chat/completions", tools=[WEATHER, CLOCK], grammar=CALLS, stream=True))
    deltas = [c for e in stream for c in e["choices"][0]["delta"].get("tool_calls", [])]
    assert [d["index"] for d in deltas] == [0, 1]
    assert all(d["type"] == "function" and d["id"] and d["function"]["name"] for d in deltas)
    assert stream[-1]["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "tool_calls"}


@pytest.mark.parametrize("choice, names", [("required", {"weather", "clock"}),
                                           ({"type": "function", "function": {"name": "clock"}}, {"clock"}),
                                           ({"type": "function", "function": {"name": "weather"}}, {"weather"})])
def test_tool_choice_is_enforced(other, choice, names):
    for seed in (1, 2):
        for path in ("/v1/chat/completions", "/api/chat"):
            reply = ask(other, path, tools=[WEATHER, CLOCK], tool_choice=choice, seed=seed, think=False,
                        options={"seed": seed, "num_predict": 300})
            message = reply.json()["choices"][0]["message"] if path.startswith("/v1") else reply.json()["message"]
            assert {c["function"]["name"] for c in message["tool_calls"]} <= names
            for call in message["tool_calls"]:
                arguments = call["function"]["arguments"]
                arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
                if call["function"]["name"] == "weather":
                    assert arguments["city"] in ("Rome", "Oslo") and arguments.get("days") in (None, 1, 2, 3)


def test_tool_choice_none_and_wrong_ones(other):
    answer = ask(other, "/v1/chat/completions", tools=[WEATHER], tool_choice="none", think=False, max_tokens=5).json()
    assert "tool_calls" not in answer["choices"][0]["message"]
    for choice in ("sometimes", {"type": "function", "function": {"name": "absent"}}, {"type": "function"}):
        assert ask(other, "/v1/chat/completions", tools=[WEATHER], tool_choice=choice).status_code == 400
    for tools in ({}, [3], [{"type": "function"}], [{"type": "function", "function": {}}]):
        reply = ask(other, "/v1/chat/completions", tools=tools)
        assert reply.status_code == 400 and reply.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("arguments", [{"city": "Rome"}, '{"city": "Rome"}'])
def test_history_with_calls_as_objects_and_as_strings(other, arguments):
    history = [*HELLO, {"role": "assistant", "content": None, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": arguments, "index": 0}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Sun."}]
    prompt = requests.post(other.url + "/apply-template", json={"model": "thinker", "messages": history}).json()["prompt"]
    assert '{"name": "weather", "arguments": {"city": "Rome"}}' in prompt and "Sun." in prompt
    for path in ("/api/chat", "/v1/chat/completions"):
        assert ask(other, path, messages=history, tools=[WEATHER], grammar=gbnf("Sunny.")).ok


def test_thoughts_sent_back_inside_the_text_are_dropped(other):
    history = [*HELLO, {"role": "assistant", "content": "<think>secret</think>\n\nFour."}, {"role": "user", "content": "And?"}]
    counted = ask(other, "/api/chat", messages=history, grammar=gbnf("x")).json()["prompt_eval_count"]
    history[1]["content"] = "Four."
    assert ask(other, "/api/chat", messages=history, grammar=gbnf("x")).json()["prompt_eval_count"] == counted


def test_ollamas_client(other):
    client = ollama.Client(host=other.url)
    pieces = list(client.chat("thinker", messages=HELLO, think=False, stream=True, options={"num_predict": 4}))
    assert pieces[-1].done and not any(p.message.thinking for p in pieces)
    def weather(city: str) -> str:
        """The weather of a place.

        Args:
          city: its name
        """
        return city
    answer = client.chat("thinker", messages=HELLO, tools=[weather], think=False, options={"num_predict": 3})
    assert answer.done_reason in ("length", "stop")
    with pytest.raises(ollama.ResponseError) as caught:
        client.chat("long", messages=HELLO, think=True)
    assert caught.value.status_code == 400 and "does not support thinking" in caught.value.error


def test_openais_client_parses_and_calls(other):
    client = openai.OpenAI(base_url=other.url + "/v1", api_key="any", max_retries=0)
    answer = client.chat.completions.create(model="thinker", messages=HELLO, tools=[WEATHER, CLOCK], max_tokens=300,
                                            extra_body={"grammar": CALLS})
    assert [c.function.name for c in answer.choices[0].message.tool_calls] == ["weather", "clock"]
    with client.chat.completions.stream(model="thinker", messages=HELLO, tools=[WEATHER, CLOCK], max_tokens=300,
                                        extra_body={"grammar": CALLS}) as stream:
        for _ in stream:
            pass
        last = stream.get_final_completion()
    assert [c.function.name for c in last.choices[0].message.tool_calls] == ["weather", "clock"]
    assert last.choices[0].finish_reason == "tool_calls"


def test_infill(other):
    tokens = requests.post(other.url + "/tokenize", json={"model": "filler", "content": "abc"}).json()["tokens"]
    body = {"model": "filler", "prompt": "abc", "suffix": "abc", "stream": False, "options": {"num_predict": 3, "temperature": 0}}
    answer = requests.post(other.url + "/api/generate", json=body).json()
    assert answer["prompt_eval_count"] == 2 * len(tokens) + 3 and 1 <= answer["eval_count"] <= 3
    by_hand = requests.post(other.url + "/v1/completions", json={
        "model": "filler", "prompt": [33, *tokens, 34, *tokens, 35], "max_tokens": 3, "temperature": 0}).json()
    openais = requests.post(other.url + "/v1/completions", json={
        "model": "filler", "prompt": "abc", "suffix": "abc", "max_tokens": 3, "temperature": 0}).json()
    assert answer["response"] == by_hand["choices"][0]["text"] == openais["choices"][0]["text"]
    assert "insert" in requests.post(other.url + "/api/show", json={"model": "filler"}).json()["capabilities"]
    refused = requests.post(other.url + "/api/generate", json={"model": "long", "prompt": "abc", "suffix": "x"})
    assert refused.status_code == 400
    assert refused.json()["error"] == "registry.ollama.ai/library/long:latest does not support insert"


def test_context_continues_a_conversation(other):
    def generate(prompt, **more):
        return requests.post(other.url + "/api/generate", json={
            "model": "thinker", "prompt": prompt, "stream": False, "options": {"num_predict": 80, "temperature": 0},
            **more}).json()
    first = generate("One", grammar=THOUGHT)
    assert first["context"] and first["eval_count"] + first["prompt_eval_count"] <= len(first["context"]) + 1
    second = generate("Two", grammar=THOUGHT, context=first["context"])
    assert second["response"] == "Four, I say." and second["thinking"] == "Let me see."
    before, text = [requests.post(other.url + "/detokenize", json={"model": "thinker", "tokens": answer["context"]}).json()[
        "content"] for answer in (first, second)]
    assert text.startswith(before) and before.count("<|im_start|>") == 2 and text.count("<|im_start|>") == 4
    assert text.index("One") < text.index("Four, I say.") < text.index("Two") and text.count("Four, I say.") == 2
    assert generate("Two", context=[5] * 5000, grammar=THOUGHT)["truncated"]
    assert "error" in generate("Two", context=["x"])
