"""Without a model on the command line the one in the box is offered, loaded when asked for, and said to be used."""
import requests

from conftest import ROOT


def test_the_model_in_the_box(start):
    server = start()
    assert any("the model in the box" in line for line in server.log)
    names = {m["name"] for m in requests.get(server.url + "/api/tags").json()["models"]}
    assert "coterie-box:latest" in names
    body = {"model": "coterie-box", "stream": False, "options": {"temperature": 0},
            "messages": [{"role": "user", "content": "Hello!"}]}
    answer = requests.post(server.url + "/api/chat", json=body, timeout=60).json()
    assert answer["message"]["content"] == "Hello! How can I help you?"


def test_a_named_model_is_alone(start):
    server = start(str(ROOT / "tests" / "data" / "golden" / "llama.gguf"))
    assert not any("box" in line for line in server.log)
