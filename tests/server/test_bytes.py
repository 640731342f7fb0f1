"""What goes over the wire, byte for byte where clients depend on it: headers, lines, the keys of every object."""
import json
import re
import socket

import pytest
import requests

HELLO = [{"role": "user", "content": "Hello"}]
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
METRICS = ["done", "done_reason", "total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count",
           "eval_duration"]


def raw(server, method, path, body=None, headers=b""):
    """The answer as it came: status line, headers, body without its chunks' lengths, and the chunks."""
    data = b"" if body is None else json.dumps(body).encode()
    host, port = server.url[7:].split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n"
                           % (method.encode(), path.encode(), headers, len(data)) + data)
        got = b""
        while piece := connection.recv(65536):
            got += piece
    head, _, rest = got.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    fields = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
    chunks = []
    if fields.get("transfer-encoding") == "chunked":
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            chunks.append(rest[:int(size, 16)])
            rest = rest[int(size, 16) + 2:]
        assert chunks.pop() == b""
    return lines[0], fields, b"".join(chunks) if chunks else rest, chunks


def test_ollamas_stream(server):
    status, fields, body, chunks = raw(server, "POST", "/api/chat", {"model": "tiny", "messages": HELLO,
                                                                      "options": {"num_predict": 4}})
    assert status == "HTTP/1.1 200 OK" and fields["content-type"] == "application/x-ndjson"
    assert all(chunk.endswith(b"\n") and chunk.count(b"\n") == 1 for chunk in chunks)  # one line at a time, at once
    *pieces, last = [json.loads(line) for line in body.splitlines()]
    for piece in pieces:
        assert list(piece) == ["model", "created_at", "message", "done"] and STAMP.fullmatch(piece["created_at"])
        assert list(piece["message"]) == ["role", "content"] and piece["done"] is False
    assert list(last) == ["model", "created_at", "message", *METRICS]
    assert last["message"] == {"role": "assistant", "content": ""}
    _, _, body, _ = raw(server, "POST", "/api/generate", {"model": "tiny", "prompt": "x", "options": {"num_predict": 4}})
    *pieces, last = [json.loads(line) for line in body.splitlines()]
    assert all(list(piece) == ["model", "created_at", "response", "done"] for piece in pieces)
    assert list(last) == ["model", "created_at", "response", *METRICS, "context"]


def test_openais_stream(server):
    body = {"model": "tiny", "messages": HELLO, "stream": True, "max_tokens": 3, "stream_options": {"include_usage": True}}
    status, fields, text, chunks = raw(server, "POST", "/v1/chat/completions", body)
    assert status == "HTTP/1.1 200 OK" and fields["content-type"] == "text/event-stream"
    assert fields["cache-control"] == "no-cache" and fields["x-accel-buffering"] == "no"
    assert all(chunk.startswith(b"data: ") and chunk.endswith(b"\n\n") and chunk.count(b"\n") == 2 for chunk in chunks)
    *events, end = text.split(b"\n\n")[:-1]
    assert end == b"data: [DONE]"
    events = [json.loads(event[6:]) for event in events]
    keys = ["id", "object", "created", "model", "system_fingerprint", "choices"]
    assert all(list(event)[:6] == keys and event["object"] == "chat.completion.chunk" for event in events)
    assert events[0]["choices"] == [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    assert events[-2]["choices"][0]["delta"] == {} and events[-2]["choices"][0]["finish_reason"] in ("stop", "length")
    assert list(events[-2]) == [*keys, "timings"]
    assert events[-1]["choices"] == [] and list(events[-1]) == [*keys, "usage"]
    assert list(events[-1]["usage"]) == ["prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"]
    assert not any("usage" in event for event in events[:-1])
    _, _, text, _ = raw(server, "POST", "/v1/completions", {"model": "tiny", "prompt": "x", "stream": True, "max_tokens": 2})
    events = [json.loads(event[6:]) for event in text.split(b"\n\n")[:-2]]
    assert all(event["object"] == "text_completion" and isinstance(event["choices"][0]["text"], str) for event in events)


def test_whole_answers(server):
    answer = requests.post(server.url + "/v1/chat/completions", json={"model": "tiny", "messages": HELLO, "max_tokens": 2}).json()
    assert list(answer) == ["id", "object", "created", "model", "system_fingerprint", "choices", "usage", "timings"]
    assert list(answer["choices"][0]) == ["index", "message", "logprobs", "finish_reason"]
    assert list(answer["timings"]) == ["cache_n", "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second",
                                       "predicted_n", "predicted_ms", "predicted_per_token_ms", "predicted_per_second"]
    for path, body, message in (("/api/chat", {"messages": []}, {"message": {"role": "assistant", "content": ""}}),
                                ("/api/generate", {"prompt": ""}, {"response": ""})):
        for keep_alive, reason in (("5m", "load"), (0, "unload")):
            reply = requests.post(server.url + path, json={"model": "llama", "keep_alive": keep_alive, **body})
            answer = reply.json()
            assert reply.headers["Content-Type"] == "application/json; charset=utf-8" and STAMP.fullmatch(answer.pop("created_at"))
            assert answer == {"model": "llama", **message, "done": True, "done_reason": reason}


def test_listings(server):
    tags = requests.get(server.url + "/api/tags").json()["models"]
    assert all(list(m) == ["name", "model", "modified_at", "size", "digest", "details", "capabilities"] for m in tags)
    details = ["parent_model", "format", "family", "families", "parameter_size", "quantization_level", "context_length",
               "embedding_length"]
    assert all(list(m["details"]) == details for m in tags)
    requests.post(server.url + "/api/generate", json={"model": "tiny"})
    one = requests.get(server.url + "/api/ps").json()["models"][0]
    assert list(one) == ["name", "model", "size", "digest", "details", "expires_at", "size_vram", "context_length"]
    shown = requests.post(server.url + "/api/show", json={"model": "tiny"}).json()
    assert list(shown) == ["license", "modelfile", "parameters", "template", "system", "details", "messages", "model_info",
                           "capabilities", "modified_at"]
    assert "tokenizer.chat_template" not in shown["model_info"] and shown["model_info"]["general.parameter_count"] > 0
    assert requests.get(server.url + "/api/version").content == b'{"version":"0.33.0"}'
    listed = requests.get(server.url + "/v1/models").json()
    assert listed["object"] == "list" and list(listed["data"][0])[:4] == ["id", "object", "created", "owned_by"]
    assert requests.get(server.url + "/v1/models/tiny%3Alatest").json()["id"] == "tiny:latest"


@pytest.mark.parametrize("method, path, status, content", [
    ("GET", "/", 200, b"Ollama is running"), ("HEAD", "/", 200, b""), ("HEAD", "/api/tags", 200, b""),
    ("HEAD", "/api/version", 200, b""), ("GET", "/nothing", 404, b"404 page not found"), ("GET", "/health", 200, b'{"status":"ok"}'),
    ("GET", "/api/chat", 405, b'{"error":"method not allowed"}'), ("POST", "/api/tags", 405, b'{"error":"method not allowed"}'),
    ("POST", "/api/push", 501, b'{"error":"this server does not push models"}'),
    ("POST", "/api/me", 404, b'{"error":"no such path: /api/me"}'),
    ("GET", "/v1/models/none", 404,
     b'{"error":{"message":"model \'none\' not found","type":"not_found_error","param":null,"code":null}}')])
def test_small_answers(server, method, path, status, content):
    line, fields, body, _ = raw(server, method, path)
    assert line.startswith(f"HTTP/1.1 {status} ") and body == content
    if content.startswith(b"{"):
        assert fields["content-type"] == "application/json; charset=utf-8"


@pytest.mark.parametrize("body, error", [
    ({"model": "tiny", "messages": HELLO, "think": "x"}, 'invalid think value: "x"'),
    ({"model": "tiny", "messages": HELLO, "options": []}, "options must be an object"),
    ({"model": "tiny", "messages": HELLO, "top_logprobs": 99}, "top_logprobs must be between 0 and 20"),
    ({"model": "tiny", "messages": HELLO, "keep_alive": "soon"}, 'time: invalid duration "soon"'),
    ({"model": "tiny", "messages": HELLO, "tools": {}}, "'tools' must be an array"),
    ({"model": "tiny", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]},
     "this server reads text only: send the request without images"),
    ({"model": "tiny", "messages": [{"role": "user", "content": "x", "images": ["aGk="]}]},
     "this server reads text only: send the request without images")])
def test_refusals(server, body, error):
    reply = requests.post(server.url + "/api/chat", json=body)
    assert reply.status_code == 400 and list(reply.json()) == ["error"] and reply.json()["error"].startswith(error)


def test_origins(start, store):
    server = start(OLLAMA_ORIGINS="chrome-extension://*, https://chat.example")
    def asked(origin, method="GET"):
        return requests.request(method, server.url + "/api/tags", headers={"Origin": origin})
    for origin in ("chrome-extension://abc", "https://chat.example", "http://localhost", "https://127.0.0.1:9", "tauri://localhost",
                   "vscode-webview://x", "file://"):
        assert asked(origin).status_code == 200 and asked(origin).headers["Access-Control-Allow-Origin"] == origin
    for origin in ("moz-extension://abc", "http://chat.example", "https://chat.example.evil", "http://localhost.evil", "null"):
        assert asked(origin).status_code == 403 and asked(origin).content == b"" and asked(origin, "OPTIONS").status_code == 403


def test_what_the_start_says(start, store):
    server = start(OLLAMA_KEEP_ALIVE="90", OLLAMA_NUM_PARALLEL="three", OLLAMA_CONTEXT_LENGTH="512", OLLAMA_VULKAN="1",
                   OLLAMA_KV_CACHE_TYPE="q8_0", OLLAMA_MAX_QUEUE="7", OLLAMA_HOST="http://127.0.0.1:0")
    said = "".join(server.log)
    for words in ("OLLAMA_KEEP_ALIVE         90 s", "OLLAMA_CONTEXT_LENGTH     512", "OLLAMA_KV_CACHE_TYPE      q8_0",
                  "OLLAMA_MAX_QUEUE          7", "warning: OLLAMA_NUM_PARALLEL=three is not a whole number; it stays 4",
                  "warning: OLLAMA_VULKAN has no meaning here"):
        assert words in said, said


def test_a_failure_in_the_middle_is_told(server):
    """A grammar that bias forbids to go on: the answer can't be completed after its first letters."""
    token = requests.post(server.url + "/tokenize", json={"model": "tiny", "content": "z"}).json()["tokens"][0]
    body = {"model": "tiny", "messages": HELLO, "stream": True, "grammar": 'root ::= "aaz"', "logit_bias": {str(token): -1e39}}
    _, _, text, _ = raw(server, "POST", "/v1/chat/completions", body)
    assert text.endswith(b"data: [DONE]\n\n")
    last = json.loads(text.split(b"\n\n")[-3][6:])
    assert last["error"]["message"] and not last.get("choices"), text
