"""Clients that wrap others: LiteLLM and LangChain over both APIs; and what a benchmark of Ollama servers reads."""
import asyncio
import json
import time

import pytest
import requests

HELLO = [{"role": "user", "content": "Hello"}]


def test_litellm(other):
    litellm = pytest.importorskip("litellm")
    litellm.telemetry = False
    for model, more in (("ollama_chat/thinker", {"api_base": other.url}), ("ollama/thinker", {"api_base": other.url}),
                        ("openai/thinker", {"api_base": other.url + "/v1", "api_key": "any"})):
        answer = litellm.completion(model=model, messages=HELLO, max_tokens=4, temperature=0, **more)
        assert answer.usage.completion_tokens <= 4 and answer.choices[0].finish_reason in ("stop", "length")
        pieces = list(litellm.completion(model=model, messages=HELLO, max_tokens=4, temperature=0, stream=True, **more))
        text = "".join(p.choices[0].delta.content or "" for p in pieces if p.choices)
        assert text == (answer.choices[0].message.content or "")
    vectors = litellm.embedding(model="openai/embedder", input=["a", "b"], api_base=other.url + "/v1", api_key="any",
                                encoding_format="float")
    assert len(vectors.data) == 2
    with pytest.raises(litellm.exceptions.NotFoundError):
        litellm.completion(model="openai/none", messages=HELLO, api_base=other.url + "/v1", api_key="any", max_retries=0)


def test_langchain_ollama(other):
    module = pytest.importorskip("langchain_ollama")
    chat = module.ChatOllama(base_url=other.url, model="thinker", num_predict=5, temperature=0, reasoning=False)
    answer = chat.invoke("Hello")
    assert answer.usage_metadata["output_tokens"] <= 5 and answer.response_metadata["done_reason"] in ("stop", "length")
    assert "".join(p.content for p in chat.stream("Hello")) == answer.content
    assert asyncio.run(chat.ainvoke("Hello")).content == answer.content
    thinking = module.ChatOllama(base_url=other.url, model="thinker", num_predict=5, reasoning=True)
    assert isinstance(thinking.invoke("Hello").content, str)

    def weather(city: str) -> str:
        """The weather of a place."""
        return city
    assert chat.bind_tools([weather]).invoke("Hello") is not None
    structured = module.ChatOllama(base_url=other.url, model="thinker", num_predict=300, reasoning=False).with_structured_output(
        {"title": "x", "type": "object", "properties": {"n": {"type": "integer", "enum": [1, 2]}}, "required": ["n"],
         "additionalProperties": False}, method="json_schema")
    assert structured.invoke("Hello")["n"] in (1, 2)
    vectors = module.OllamaEmbeddings(base_url=other.url, model="embedder").embed_documents(["a", "b"])
    assert len(vectors) == 2 and len(vectors[0]) == 64
    assert module.OllamaLLM(base_url=other.url, model="thinker", num_predict=3).invoke("Hello") is not None


def test_langchain_openai(other):
    module = pytest.importorskip("langchain_openai")
    settings = {"base_url": other.url + "/v1", "api_key": "any", "max_retries": 0}
    chat = module.ChatOpenAI(model="thinker", max_tokens=5, temperature=0, stream_usage=True, extra_body={"think": False},
                             **settings)
    answer = chat.invoke("Hello")
    assert answer.usage_metadata["output_tokens"] <= 5
    pieces = list(chat.stream("Hello"))
    assert "".join(p.content for p in pieces) == answer.content
    assert sum(p.usage_metadata["output_tokens"] for p in pieces if p.usage_metadata) == answer.usage_metadata["output_tokens"]
    weather = {"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "enum": ["Rome"]}}, "required": ["city"],
        "additionalProperties": False}}}
    caller = module.ChatOpenAI(model="thinker", max_tokens=300, extra_body={"think": False}, **settings)
    call = caller.bind_tools([weather], tool_choice="weather").invoke("Hello").tool_calls[0]
    assert call["name"] == "weather" and call["args"] == {"city": "Rome"}
    # tiktoken, which would fetch its tables, is not asked.
    vectors = module.OpenAIEmbeddings(model="embedder", check_embedding_ctx_length=False, **settings).embed_documents(["a", "b"])
    assert len(vectors) == 2 and abs(sum(x * x for x in vectors[0]) - 1) < 1e-4


def test_a_benchmark_of_ollama_servers(start, folder):
    """One streamed chat for each prompt, thinking off, options set: wall time, first token, and the server's own figures."""
    server = start("--models-dir", str(folder))
    rows = []
    for prompt in ("Why is the sky blue?", "Write a long story about a lighthouse. " * 10, "Count."):
        body = {"model": "thinker", "messages": [{"role": "user", "content": prompt}], "stream": True, "think": False,
                "options": {"num_predict": 32, "temperature": 0, "num_ctx": 1024, "seed": 1}}
        begin, first, last = time.perf_counter(), None, None
        with requests.post(server.url + "/api/chat", json=body, stream=True, timeout=120) as reply:
            for line in reply.iter_lines():
                piece = json.loads(line)
                if first is None and piece["message"]["content"]:
                    first = time.perf_counter() - begin
                last = piece
        rows.append((time.perf_counter() - begin, first, last))
    for wall, first, last in rows:
        assert last["done"] and 0 < last["eval_count"] <= 32
        assert first is None or first <= wall
        for part in ("load_duration", "prompt_eval_duration", "eval_duration", "total_duration"):
            assert 0 < last[part] <= wall * 1e9
        assert last["load_duration"] + last["prompt_eval_duration"] + last["eval_duration"] <= last["total_duration"] * 1.05
        assert last["eval_count"] / (last["eval_duration"] / 1e9) > 1
    assert rows[1][2]["prompt_eval_count"] > 5 * rows[2][2]["prompt_eval_count"]
    assert rows[0][2]["load_duration"] > rows[1][2]["load_duration"]  # only the first loads
    server.end()
