"""Ollama's API: raw, as its documents and clients' sources say, and through its own Python client."""
import hashlib
import json
import time

import ollama
import pytest
import requests


def post(server, path, body, **more):
    return requests.post(server.url + path, data=body if isinstance(body, (str, bytes)) else json.dumps(body),
                         timeout=120, **more)


def chat(**more):
    return {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], **more}


def test_root_and_version(server):
    assert requests.get(server.url).text == "Ollama is running"
    assert requests.head(server.url + "/api/version").status_code == 200
    version = requests.get(server.url + "/api/version").json()["version"]
    assert [int(part) for part in version.split(".")] >= [0, 6, 4]


@pytest.mark.parametrize("path, body, status, error", [
    ("/api/chat", "", 400, "missing request body"),
    ("/api/chat", {}, 400, "model is required"),
    ("/api/chat", chat(model="none"), 404, "model 'none' not found"),
    ("/api/generate", {"model": "none", "prompt": "x"}, 404, "model 'none' not found"),
    ("/api/show", {"model": "none"}, 404, "model 'none' not found"),
    ("/api/embed", {"model": "none", "input": "x"}, 404, 'model "none" not found, try pulling it first'),
    ("/api/chat", chat(think=True), 400, '"tiny" does not support thinking'),
    ("/api/chat", chat(tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}]), 400,
     "registry.ollama.ai/library/tiny:latest does not support tools"),
    ("/api/chat", chat(options={"num_predict": "x"}), 400, 'option "num_predict" must be of type integer'),
    ("/api/chat", chat(options={"temperature": []}), 400, 'option "temperature" must be of type float32'),
    ("/api/chat", chat(options={"stop": 3}), 400, 'option "stop" must be of type array'),
    ("/api/generate", {"model": "tiny", "prompt": "x", "raw": True, "system": "y"}, 400,
     "raw mode does not support template, system, or context"),
])
def test_errors(server, path, body, status, error):
    reply = post(server, path, body)
    assert reply.json() == {"error": error}
    assert reply.status_code == status
    assert reply.headers["Content-Type"].startswith("application/json")


@pytest.mark.parametrize("body", ["{", "[1]", '"text"', "[" * 100000, "\x00", '{"model": "tiny", "messages": 7}',
                                  '{"model": "tiny", "messages": [7]}', '{"model": 5}', '{"model": "../../etc/passwd"}'])
def test_bad_bodies_are_refused(server, body):
    reply = post(server, "/api/chat", body)
    assert 400 <= reply.status_code < 500
    assert isinstance(reply.json()["error"], str)


def test_wrong_method_and_path(server):
    assert requests.get(server.url + "/api/chat").status_code == 405
    assert requests.get(server.url + "/api/nothing").status_code == 404


def test_files_of_the_machine_are_no_models(server):
    assert post(server, "/api/show", {"model": "/etc/passwd"}).status_code == 404


def test_pictures_are_refused(server):
    message = {"role": "user", "content": "What is it?", "images": ["aGVsbG8="]}
    reply = post(server, "/api/chat", chat(messages=[message]))
    assert reply.status_code == 400 and "images" in reply.json()["error"]


def test_chat_whole(server):
    reply = post(server, "/api/chat", chat(stream=False), headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert reply.headers["Content-Type"] == "application/json; charset=utf-8"
    answer = reply.json()
    assert answer["model"] == "tiny" and answer["done"] and answer["done_reason"] in ("stop", "length")
    assert answer["message"]["role"] == "assistant" and "response" not in answer
    for key in ("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count",
                "eval_duration"):
        assert answer[key] > 0
    assert answer["eval_count"] <= 12  # num_predict of the store's parameters


def test_chat_stream_is_the_same_text(server):
    whole = post(server, "/api/chat", chat(stream=False)).json()["message"]["content"]
    reply = post(server, "/api/chat", chat(), stream=True)
    assert reply.headers["Content-Type"] == "application/x-ndjson"
    raw = reply.content
    assert raw.endswith(b"\n") and b"\n\n" not in raw
    chunks = [json.loads(line) for line in raw.splitlines()]
    assert all(not c["done"] for c in chunks[:-1]) and chunks[-1]["done"]
    assert "".join(c["message"]["content"] for c in chunks) == whole


def test_big_bodies_as_forms(server):
    body = chat(stream=False, messages=[{"role": "user", "content": "word " * 4000}, {"role": "user", "content": "Hi"}])
    reply = post(server, "/api/chat", body, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert reply.status_code == 200 and reply.json()["truncated"]


def test_seeds_repeat(server):
    def answer(seed):
        options = {"temperature": 1.5, "seed": seed, "top_k": 0, "top_p": 1}
        return post(server, "/api/chat", chat(stream=False, options=options)).json()["message"]["content"]
    assert answer(0) == answer(0)
    assert answer(7) == answer(7) != answer(8)


def test_generate(server):
    whole = post(server, "/api/generate", {"model": "tiny", "prompt": "Hello", "stream": False}).json()
    assert whole["done"] and all(isinstance(token, int) for token in whole["context"])
    raw = post(server, "/api/generate", {"model": "tiny", "prompt": "Hello", "raw": True, "stream": False}).json()
    assert "context" not in raw and raw["prompt_eval_count"] < whole["prompt_eval_count"]


def test_json_format(server):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "enum": [3, 5]}}, "required": ["n"],
              "additionalProperties": False}
    body = chat(stream=False, format=schema, options={"num_predict": 60})
    assert json.loads(post(server, "/api/chat", body).json()["message"]["content"])["n"] in (3, 5)
    assert post(server, "/api/chat", chat(format=7)).status_code == 500
    assert post(server, "/api/chat", chat(format="")).status_code == 200


def test_logprobs(server):
    answer = post(server, "/api/chat", chat(stream=False, logprobs=True, top_logprobs=3)).json()
    assert len(answer["logprobs"]) == answer["eval_count"]
    for entry in answer["logprobs"]:
        assert entry["logprob"] <= 0 and len(entry["top_logprobs"]) == 3
        assert bytes(entry["bytes"]) == entry["token"].encode()
        assert entry["top_logprobs"][0]["logprob"] >= entry["logprob"] - 1e-5
    assert post(server, "/api/chat", chat(logprobs=True, top_logprobs=21)).status_code == 400


def test_context_is_kept_to(server):
    body = chat(stream=False, options={"num_ctx": 64, "num_predict": -1}, shift=False)
    answer = post(server, "/api/chat", body).json()
    assert answer["prompt_eval_count"] + answer["eval_count"] <= 64
    long = chat(stream=False, truncate=False, messages=[{"role": "user", "content": "word " * 5000}])
    assert post(server, "/api/chat", long).status_code == 400


def test_load_and_unload(server):
    def loaded():
        return {m["name"]: m for m in requests.get(server.url + "/api/ps").json()["models"]}
    reply = post(server, "/api/generate", {"model": "tiny", "prompt": ""})
    assert reply.json()["done_reason"] == "load" and reply.headers["Content-Type"].startswith("application/json")
    one = loaded()["tiny:latest"]
    assert one["size"] > 0 and one["context_length"] > 0 and one["size_vram"] == 0
    reply = post(server, "/api/chat", {"model": "tiny", "messages": [], "keep_alive": 0})
    assert reply.json()["done_reason"] == "unload"
    for _ in range(50):
        if "tiny:latest" not in loaded():
            break
        time.sleep(0.1)
    assert "tiny:latest" not in loaded()
    assert post(server, "/api/chat", {"model": "tiny", "keep_alive": 0}).json()["done_reason"] == "unload"


@pytest.mark.parametrize("value, fine", [("5m", True), ("1h30m", True), (300, True), (-1, True), ("-1", True),
                                         ("300", True), ("x", False), ("5 parsecs", False), ([], False)])
def test_keep_alive_spellings(server, value, fine):
    assert post(server, "/api/generate", {"model": "tiny", "keep_alive": value}).ok == fine


def test_tags_and_show(server, store):
    models = {m["name"]: m for m in requests.get(server.url + "/api/tags").json()["models"]}
    assert set(models) == {"tiny:latest", "llama:latest"}  # the broken one is not offered
    tiny = models["tiny:latest"]
    manifest = (store.root / "manifests/registry.ollama.ai/library/tiny/latest").read_bytes()
    assert tiny["model"] == tiny["name"] and tiny["digest"] == hashlib.sha256(manifest).hexdigest()
    assert tiny["details"]["family"] == "qwen3" and tiny["details"]["quantization_level"] == "F32"
    shown = post(server, "/api/show", {"model": "TINY"}).json()
    assert shown["license"] == "free" and shown["system"] == "Be brief."
    assert shown["model_info"]["general.architecture"] == "qwen3"
    assert shown["model_info"]["qwen3.context_length"] == 1024
    assert "completion" in shown["capabilities"]
    assert 'stop                           "<end>"' in shown["parameters"]
    assert post(server, "/api/show", {"name": "tiny", "verbose": True}).json()["tensors"]


def test_a_broken_model_says_why(server):
    reply = post(server, "/api/generate", {"model": "broken:1b", "prompt": "x"})
    assert reply.status_code == 500 and "50 bytes, expected 100" in reply.json()["error"]


def test_origins_and_hosts(server):
    def get(**headers):
        return requests.get(server.url + "/api/tags", headers=headers)
    assert get(Origin="http://evil.example").status_code == 403
    assert get(Host="evil.example").status_code == 403
    assert get(Host="myhost.local").status_code == 200
    allowed = get(Origin="http://localhost:3000")
    assert allowed.status_code == 200 and allowed.headers["Access-Control-Allow-Origin"] == "http://localhost:3000"
    before = requests.options(server.url + "/api/chat", headers={
        "Origin": "app://x", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-trace"})
    assert before.status_code == 204 and before.headers["Access-Control-Allow-Headers"] == "x-trace"


def test_the_python_client(server):
    client = ollama.Client(host=server.url)
    assert {m.model for m in client.list().models} == {"tiny:latest", "llama:latest"}
    assert client.show("tiny").modelinfo["general.architecture"] == "qwen3"
    messages = [{"role": "user", "content": "Hello"}]
    whole = client.chat("tiny", messages=messages)
    pieces = list(client.chat("tiny", messages=messages, stream=True))
    assert "".join(p.message.content for p in pieces) == whole.message.content
    assert pieces[-1].done and pieces[-1].eval_count == whole.eval_count
    assert client.generate("tiny", "Hello").response
    assert client.ps().models
    with pytest.raises(ollama.ResponseError) as caught:
        client.chat("none", messages=messages)
    assert caught.value.status_code == 404
