"""Embeddings: the same, and of length 1, at all three endpoints, alone and in company."""
import base64
import struct

import ollama
import openai
import pytest
import requests

TEXTS = ["The cat sat.", "A dog ran over there and back again.", "x"]


def post(server, path, **body):
    return requests.post(server.url + path, json=body, timeout=60)


def length(vector):
    return sum(x * x for x in vector) ** 0.5


def close(a, b):
    return len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) < 1e-5


@pytest.mark.parametrize("model", ["embedder", "thinker"])
def test_all_endpoints_agree(other, model):
    batch = post(other, "/api/embed", model=model, input=TEXTS).json()
    assert batch["model"] == model and len(batch["embeddings"]) == 3
    assert batch["prompt_eval_count"] > 3 and batch["total_duration"] > 0 and batch["load_duration"] > 0
    openais = post(other, "/v1/embeddings", model=model, input=TEXTS).json()
    assert openais["object"] == "list" and openais["model"] == model
    assert openais["usage"] == {"prompt_tokens": batch["prompt_eval_count"], "total_tokens": batch["prompt_eval_count"]}
    for i, text in enumerate(TEXTS):
        vector = batch["embeddings"][i]
        assert abs(length(vector) - 1) < 1e-5
        assert close(vector, post(other, "/api/embed", model=model, input=text).json()["embeddings"][0])
        assert close(vector, post(other, "/api/embeddings", model=model, prompt=text).json()["embedding"])
        assert openais["data"][i]["index"] == i and openais["data"][i]["object"] == "embedding"
        assert close(vector, openais["data"][i]["embedding"])
    assert not close(batch["embeddings"][0], batch["embeddings"][1])


def test_dimensions_and_base64(other):
    whole = post(other, "/v1/embeddings", model="embedder", input="Hello").json()["data"][0]["embedding"]
    cut = post(other, "/v1/embeddings", model="embedder", input="Hello", dimensions=8).json()["data"][0]["embedding"]
    scale = length(whole[:8])
    assert close(cut, [x / scale for x in whole[:8]])
    coded = post(other, "/v1/embeddings", model="embedder", input="Hello", encoding_format="base64").json()
    raw = base64.b64decode(coded["data"][0]["embedding"], validate=True)
    assert close(whole, struct.unpack(f"<{len(raw) // 4}f", raw))
    tokens = post(other, "/tokenize", model="embedder", content="Hello").json()["tokens"]
    for given in (tokens, [tokens]):
        assert close(whole, post(other, "/v1/embeddings", model="embedder", input=given).json()["data"][0]["embedding"])


def test_empty_input_loads(other):
    assert post(other, "/api/embed", model="embedder").json()["embeddings"] == []
    assert post(other, "/api/embed", model="embedder", input="").json()["embeddings"] == []
    assert post(other, "/api/embed", model="embedder", input=[]).json()["embeddings"] == []
    assert post(other, "/api/embeddings", model="embedder", prompt="").json() == {"embedding": []}


def test_too_long(other):
    text = "word " * 3000
    assert len(post(other, "/api/embed", model="embedder", input=text).json()["embeddings"]) == 1
    reply = post(other, "/api/embed", model="embedder", input=text, truncate=False)
    assert reply.status_code == 400 and reply.json()["error"].startswith("the input length exceeds the context length")
    reply = post(other, "/v1/embeddings", model="embedder", input=text)
    assert reply.status_code == 400 and reply.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("path, body, status, error", [
    ("/api/embed", {"input": "x"}, 400, "model is required"),
    ("/api/embed", {"model": "none", "input": "x"}, 404, 'model "none" not found, try pulling it first'),
    ("/api/embeddings", {"model": "none", "prompt": "x"}, 404, 'model "none" not found, try pulling it first'),
    ("/api/embed", {"model": "embedder", "input": 3}, 400, "invalid input type"),
    ("/api/embed", {"model": "embedder", "input": ["x", 3]}, 400, "invalid input type"),
    ("/api/embed", {"model": "embedder", "input": "x", "dimensions": 100000}, 400, None),
    ("/v1/embeddings", {"model": "embedder", "input": ""}, 400, "'input' must not be empty"),
    ("/v1/embeddings", {"model": "embedder", "input": ["x", ""]}, 400, None),
    ("/v1/embeddings", {"model": "embedder", "input": [[1], "x"]}, 400, None),
    ("/v1/embeddings", {"model": "embedder", "input": [[999999]]}, 400, None),
    ("/v1/embeddings", {"model": "embedder", "input": ["x"] * 2049}, 400, None),
    ("/v1/embeddings", {"model": "embedder", "input": "x", "encoding_format": "int8"}, 400, None),
    ("/v1/embeddings", {"model": "none", "input": "x"}, 404, "model 'none' not found"),
    ("/api/chat", {"model": "embedder", "messages": [{"role": "user", "content": "x"}]}, 400,
     '"embedder" does not support chat'),
    ("/api/generate", {"model": "embedder", "prompt": "x"}, 400, '"embedder" does not support generate'),
])
def test_errors(other, path, body, status, error):
    reply = post(other, path, **body)
    assert reply.status_code == status, reply.text
    found = reply.json()["error"]
    found = found["message"] if path.startswith("/v1") else found
    assert found == error if error else found


def test_clients(other):
    vector = ollama.Client(host=other.url).embed("embedder", TEXTS).embeddings[1]
    # Asks for base64 by itself.
    answer = openai.OpenAI(base_url=other.url + "/v1", api_key="any").embeddings.create(model="embedder", input=TEXTS)
    assert close(vector, answer.data[1].embedding)
    assert ollama.Client(host=other.url).show("embedder").capabilities == ["embedding"]
