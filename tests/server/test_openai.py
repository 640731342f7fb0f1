"""OpenAI's API through its own Python client, and what llama.cpp's server and Prometheus' scrapers expect."""
import json
import signal
import socket
import threading
import time

import openai
import pytest
import requests

LONG = "root ::= [a-z]{700}"  # of an answer: no model ends it earlier
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="any", max_retries=0, timeout=120)


def test_models(client):
    assert {m.id for m in client.models.list()} == {"tiny:latest", "llama:latest"}
    assert client.models.retrieve("tiny").object == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("none")


def test_chat(client):
    answer = client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=8, temperature=0)
    assert answer.object == "chat.completion" and answer.choices[0].message.content
    assert answer.choices[0].finish_reason in ("length", "stop")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.completion_tokens <= 8
    same = client.chat.completions.create(model="tiny", messages=HELLO, max_completion_tokens=8, temperature=0)
    assert same.choices[0].message.content == answer.choices[0].message.content


def test_stream(client):
    whole = client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=8, temperature=0)
    chunks = list(client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=8, temperature=0, stream=True,
                                                 stream_options={"include_usage": True}))
    assert len({c.id for c in chunks}) == 1 and len({c.created for c in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert all(c.usage is None for c in chunks[:-1])


def test_stream_ends_with_done(server):
    body = {"model": "tiny", "messages": HELLO, "max_tokens": 3, "stream": True}
    reply = requests.post(server.url + "/v1/chat/completions", json=body)
    assert reply.headers["Content-Type"] == "text/event-stream"
    assert reply.content.endswith(b"data: [DONE]\n\n")


def test_choices_stop_logprobs(client):
    answer = client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=4, n=3, seed=5, logprobs=True,
                                            top_logprobs=2)
    assert [c.index for c in answer.choices] == [0, 1, 2]
    for entry in answer.choices[0].logprobs.content:
        assert bytes(entry.bytes).decode() == entry.token and len(entry.top_logprobs) == 2
    text = client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=12, temperature=0)
    content = text.choices[0].message.content
    cut = client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=12, temperature=0, stop=content[3:5])
    assert cut.choices[0].message.content == content[:content.index(content[3:5])]
    assert cut.choices[0].finish_reason == "stop"


def test_response_format(client):
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"],
              "additionalProperties": False}
    answer = client.chat.completions.create(
        model="tiny", messages=HELLO, max_tokens=60,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    assert isinstance(json.loads(answer.choices[0].message.content)["ok"], bool)


def test_completions(client):
    answer = client.completions.create(model="tiny", prompt=["Once", "Twice"], max_tokens=4, temperature=0, echo=True)
    assert answer.object == "text_completion" and len(answer.choices) == 2
    assert answer.choices[0].text.startswith("Once")
    streamed = client.completions.create(model="tiny", prompt="Once", max_tokens=4, temperature=0, stream=True)
    assert "Once" + "".join(c.choices[0].text for c in streamed) == answer.choices[0].text
    tokens = client.completions.create(model="tiny", prompt=[1, 2, 3], max_tokens=2)
    assert tokens.usage.prompt_tokens == 3


@pytest.mark.parametrize("body, status, kind", [
    ({}, 400, "invalid_request_error"),
    ({"model": "none", "messages": HELLO}, 404, "not_found_error"),
    ({"model": "tiny", "messages": []}, 400, "invalid_request_error"),
    ({"model": "tiny", "messages": HELLO, "response_format": {"type": "x"}}, 400, "invalid_request_error"),
    ({"model": "tiny", "messages": HELLO, "temperature": "hot"}, 400, "invalid_request_error"),
    ({"model": "tiny", "messages": HELLO, "n": 0}, 400, "invalid_request_error"),
    ({"model": "tiny", "messages": HELLO, "reasoning_effort": "some"}, 400, "invalid_request_error"),
    ({"model": "tiny", "messages": [{"role": "user", "content": "word " * 9000}]}, 400, "exceed_context_size_error"),
])
def test_errors(server, body, status, kind):
    reply = requests.post(server.url + "/v1/chat/completions", json=body)
    assert reply.status_code == status
    error = reply.json()["error"]
    assert error["type"] == kind and error["message"] and error["param"] is None
    if body.get("messages") == []:
        assert error["message"] == "[] is too short - 'messages'"


def test_tokens_there_and_back(server):
    tokens = requests.post(server.url + "/tokenize", json={"model": "tiny", "content": "Hello, world"}).json()["tokens"]
    assert tokens
    text = requests.post(server.url + "/detokenize", json={"model": "tiny", "tokens": tokens}).json()["content"]
    assert text == "Hello, world"


def test_health_props_metrics(server):
    assert requests.get(server.url + "/health").json() == {"status": "ok"}
    assert requests.get(server.url + "/props").json()["total_slots"] == 2
    text = requests.get(server.url + "/metrics").text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")
    assert float(values["llamacpp:tokens_predicted_total"]) > 0
    assert any(key.startswith("coterie_requests_total{") for key in values)


def test_the_page(server):
    page = requests.get(server.url, headers={"Accept": "text/html"})
    assert "page.js" in page.text and "default-src 'self'" in page.headers["Content-Security-Policy"]
    assert requests.get(server.url + "/page.js").ok and requests.get(server.url + "/page.css").ok


def wait_for(condition, seconds=30):
    end = time.time() + seconds
    while time.time() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def running(server):
    return sum(m["running"] + m["waiting"] for m in requests.get(server.url + "/status").json()["models"])


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_ends_its_generation(server, stream):
    # Many answers that can't end by themselves before their context is full.
    body = json.dumps({"model": "llama", "prompt": ["Hello"] * 64, "n": 4, "stream": stream,
                       "grammar": LONG}).encode()
    host, port = server.url[7:].split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert wait_for(lambda: running(server) > 0)
    assert wait_for(lambda: running(server) == 0)


def test_many_at_once(server):
    results = []

    def one(i):
        reply = requests.post(server.url + "/api/chat", json={
            "model": "llama", "stream": False, "options": {"num_predict": 5, "temperature": 0},
            "messages": [{"role": "user", "content": f"Number {i % 4}"}]}, timeout=120)
        results.append((i % 4, reply.status_code, reply.json()["message"]["content"]))

    threads = [threading.Thread(target=one, args=(i,)) for i in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 24 and all(status == 200 for _, status, _ in results)
    assert len({(i, text) for i, _, text in results}) == 4  # company changes no answer


def test_keys(start):
    server = start(OLLAMA_HOST="127.0.0.1", COTERIE_API_KEY="secret")
    assert requests.get(server.url + "/health").ok
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer "}):
        assert requests.get(server.url + "/v1/models", headers=headers).status_code == 401
    assert requests.get(server.url + "/v1/models", headers={"Authorization": "Bearer secret"}).ok


def test_a_full_queue_is_busy(start, store):
    server = start("--parallel", "1", "--max-queue", "1")
    statuses = []

    def one():
        reply = requests.post(server.url + "/api/generate", json={
            "model": "tiny", "prompt": "x", "options": {"num_predict": 300}, "stream": False}, timeout=120)
        statuses.append(reply.status_code)
        if reply.status_code == 503:
            assert reply.json()["error"] == "server busy, please try again.  maximum pending requests exceeded"
            assert reply.headers["Retry-After"]

    threads = [threading.Thread(target=one) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200, 503}


def test_the_end_lets_running_answers_finish(start, store):
    server = start()
    answer = {}

    def one():
        answer["reply"] = requests.post(server.url + "/v1/completions", json={
            "model": "tiny", "prompt": "x", "grammar": LONG, "n": 16, "max_tokens": 700}, timeout=120)

    thread = threading.Thread(target=one)
    thread.start()
    assert wait_for(lambda: running(server) > 0)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    thread.join()
    assert len(answer["reply"].json()["choices"]) == 16
