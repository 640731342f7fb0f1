"""Models that are pulled, created, copied and deleted, in the server's own store; others' stores stay as they are."""
import hashlib
import json
import pathlib
import subprocess
import time

import ollama
import pytest
import requests

from conftest import GOLDEN
from registry import Registry

WEIGHTS = (GOLDEN / "qwen3.gguf").read_bytes()
TEMPLATE = b"{{ range .Messages }}{{ .Role }}: {{ .Content }}\n{{ end }}assistant: "


@pytest.fixture
def registry():
    return Registry()


@pytest.fixture
def own(start, store, tmp_path, registry):
    server = start("--store", str(tmp_path / "own"), "--registry", "http://" + registry.host)
    server.own = tmp_path / "own"
    yield server
    server.end()


def post(server, path, **body):
    return requests.post(server.url + path, json=body, timeout=60)


def lines(reply):
    return [json.loads(line) for line in reply.content.splitlines()]


def names(server):
    return {m["name"] for m in requests.get(server.url + "/api/tags").json()["models"]}


def snapshot(folder):
    return {p: p.stat().st_mtime_ns for p in pathlib.Path(folder).rglob("*")}


def add(registry, name="library/small:1b"):
    return registry.add(name, [("model", WEIGHTS), ("template", TEMPLATE), ("params", b'{"num_predict": 3}')])


def test_pull(own, registry):
    model, template, params, config = add(registry)
    reply = post(own, "/api/pull", model="small:1b")
    assert reply.headers["Content-Type"] == "application/x-ndjson"
    told = lines(reply)
    assert told[0] == {"status": "pulling manifest"}
    assert [t["status"] for t in told[-3:]] == ["verifying sha256 digest", "writing manifest", "success"]
    first = [t for t in told if t.get("digest") == "sha256:" + model]
    assert first[0]["status"] == "pulling " + model[:12] and first[-1]["completed"] == first[-1]["total"] == len(WEIGHTS)
    assert {t["digest"][7:] for t in told if "digest" in t} == {model, template, params, config}
    manifest = own.own / "manifests/registry.ollama.ai/library/small/1b"
    assert manifest.read_bytes() == registry.manifests["/v2/library/small/manifests/1b"]
    assert (own.own / f"blobs/sha256-{model}").read_bytes() == WEIGHTS
    assert not list((own.own / "blobs").glob("*-partial"))
    assert "small:1b" in names(own)
    answer = post(own, "/api/chat", model="small:1b", stream=False, messages=[{"role": "user", "content": "Hello"}])
    assert answer.json()["eval_count"] <= 3
    before = len(registry.requests)
    assert lines(post(own, "/api/pull", model="small:1b"))[-1] == {"status": "success"}
    assert all("/blobs/" not in path for path, _ in registry.requests[before:])  # nothing twice


def test_pull_through_ollamas_client(own, registry):
    add(registry, "library/small:latest")
    client = ollama.Client(host=own.url)
    told = list(client.pull("small", stream=True))
    assert told[-1].status == "success" and any(t.completed for t in told)
    assert client.pull("small").status == "success"
    with pytest.raises(ollama.ResponseError) as caught:
        client.pull("none")
    assert caught.value.status_code == 404 and "none" in caught.value.error


def test_pull_goes_on_after_the_connection_broke(own, registry):
    model = add(registry)[0]
    registry.cut = {model: 40000}
    registry.cuts_left = 2
    assert lines(post(own, "/api/pull", model="small:1b"))[-1] == {"status": "success"}
    ranges = [r for path, r in registry.requests if path.endswith(model)]
    assert ranges == [None, "bytes=40000-", "bytes=80000-"]
    assert (own.own / f"blobs/sha256-{model}").read_bytes() == WEIGHTS


@pytest.mark.parametrize("ranges", [True, False])
def test_pull_goes_on_another_time(own, registry, ranges):
    model = add(registry)[0]
    registry.wait.clear()
    with requests.post(own.url + "/api/pull", json={"model": "small:1b"}, stream=True) as reply:
        told = reply.iter_lines()
        next(told)
        partial = own.own / f"blobs/sha256-{model}-partial"
        deadline = time.time() + 20
        while not (partial.exists() and partial.stat().st_size) and time.time() < deadline:
            time.sleep(0.05)
    registry.wait.set()  # at the next piece the server sees that its client left
    deadline = time.time() + 20
    while '"/api/pull",' not in requests.get(own.url + "/metrics").text and time.time() < deadline:
        time.sleep(0.05)
    assert "small:1b" not in names(own)
    came = partial.stat().st_size
    assert 0 < came < len(WEIGHTS)
    registry.requests.clear()
    registry.ranges = ranges
    assert lines(post(own, "/api/pull", model="small:1b"))[-1] == {"status": "success"}
    assert (f"/v2/library/small/blobs/sha256:{model}", f"bytes={came}-") in registry.requests
    assert (own.own / f"blobs/sha256-{model}").read_bytes() == WEIGHTS


def test_pull_checks_what_came(own, registry):
    model = add(registry)[0]
    registry.blobs[model] = WEIGHTS[:-1] + bytes([WEIGHTS[-1] ^ 1])
    last = lines(post(own, "/api/pull", model="small:1b"))[-1]
    assert "digest mismatch" in last["error"] and model in last["error"]
    assert "small:1b" not in names(own) and not list((own.own / "blobs").glob(f"sha256-{model}*"))
    registry.blobs[model] = WEIGHTS + b"more"
    assert "more than" in lines(post(own, "/api/pull", model="small:1b"))[-1]["error"]
    registry.blobs[model] = WEIGHTS
    assert lines(post(own, "/api/pull", model="small:1b"))[-1] == {"status": "success"}


def test_pull_follows_redirects_and_explicit_hosts(own, registry):
    add(registry, "someone/thing:q8")
    registry.redirect = True
    name = f"{registry.host}/someone/thing:q8"
    assert post(own, "/api/pull", model="http://" + name).status_code == 400
    assert lines(post(own, "/api/pull", model="http://" + name, insecure=True))[-1] == {"status": "success"}
    assert name in names(own)
    assert post(own, "/api/show", model=name).ok


@pytest.mark.parametrize("manifest", [b"", b"[]", b"{}", b'{"layers": [{"digest": "sha256:../../x", "size": 1}]}',
                                      b'{"layers": [{"size": -4}]}', b'{"layers": 3}', b"x" * 5_000_000])
def test_damaged_manifests_are_refused(own, registry, manifest):
    registry.manifests["/v2/library/bad/manifests/latest"] = manifest
    reply = post(own, "/api/pull", model="bad")
    assert reply.status_code == 502 and "manifest" in reply.json()["error"] or "broke off" in reply.json()["error"]
    assert "bad:latest" not in names(own)


@pytest.mark.parametrize("name", ["", "../x", "a/../b", "a/b/c/d", "x:" + "t" * 90, "/etc/passwd", "ftp://h/a/b", ".x", "a b"])
def test_names_are_checked(own, name):
    for path in ("/api/pull", "/api/create"):
        reply = post(own, path, model=name, **({"from": "tiny"} if path == "/api/create" else {}))
        assert reply.status_code == 400
    assert post(own, "/api/copy", source="tiny", destination=name).status_code == 400


def test_a_registry_that_is_not_there(start, store, tmp_path):
    server = start("--store", str(tmp_path), "--registry", "http://127.0.0.1:1")
    reply = post(server, "/api/pull", model="x")
    assert reply.status_code == 502 and "can't be reached" in reply.json()["error"]
    server.end()


@pytest.mark.parametrize("scheme", ["Bearer", "Basic"])
def test_a_registry_that_wants_a_login(start, store, tmp_path, scheme):
    registry = Registry()
    registry.login, registry.scheme = ("me", "p:w"), scheme
    add(registry)
    login = f"me:p:w@{registry.host}"
    strangers = [start("--store", str(tmp_path / f"none{i}"), "--registry", registry.url, COTERIE_REGISTRY_LOGIN=wrong)
                 for i, wrong in enumerate(("", f"me:x@{registry.host}", "me:p:w@127.0.0.1:1", "nonsense"))]
    for server in strangers:
        reply = post(server, "/api/pull", model="small:1b", stream=False)
        assert reply.status_code == 401 and registry.host in reply.json()["error"]
        server.end()
    server = start("--store", str(tmp_path / "own"), "--registry", registry.url, COTERIE_REGISTRY_LOGIN=login)
    assert post(server, "/api/pull", model="small:1b", stream=False).json() == {"status": "success"}
    assert "small:1b" in names(server) and bool(registry.tokens) == (scheme == "Bearer")
    server.end()


def test_a_login_is_told_to_its_own_host_only(start, store, tmp_path):
    registry = Registry()
    registry.login, registry.realm = ("me", "pw"), "http://127.0.0.1:1/token"
    add(registry)
    server = start("--store", str(tmp_path), "--registry", registry.url, COTERIE_REGISTRY_LOGIN=f"me:pw@{registry.host}")
    reply = post(server, "/api/pull", model="small:1b", stream=False)
    assert reply.status_code == 502 and "which is not https" in reply.json()["error"]
    server.end()


def test_a_registry_over_https(start, store, tmp_path):
    files = [str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1]],
                   check=True, capture_output=True)
    registry = Registry(files)
    add(registry)
    server = start("--store", str(tmp_path / "none"), "--registry", registry.url)
    reply = post(server, "/api/pull", model="small:1b", stream=False)
    assert reply.status_code == 502 and "SSL_CERT_FILE=FILE.pem" in reply.json()["error"], reply.text
    server.end()
    server = start("--store", str(tmp_path / "own"), "--registry", registry.url, SSL_CERT_FILE=files[0])
    assert post(server, "/api/pull", model="small:1b", stream=False).json() == {"status": "success"}
    server.end()


def test_names_of_one_file_are_loaded_once(start, store, tmp_path):
    server = start("--store", str(tmp_path), "--max-models", "3")
    assert post(server, "/api/copy", source="tiny", destination="twin").ok
    def ask(name):
        return post(server, "/api/generate", model=name, prompt="Hi", stream=False, options={"seed": 1}).json()["response"]
    def mapped():
        text = open(f"/proc/{server.process.pid}/maps").read()
        return sum(1 for line in text.splitlines() if "blobs/sha256-" in line)
    first, once = ask("tiny"), mapped()
    assert once > 0
    assert ask("twin") == first and mapped() == once
    assert {m["name"] for m in requests.get(server.url + "/api/ps").json()["models"]} == {"tiny:latest", "twin:latest"}
    assert post(server, "/api/generate", model="tiny", keep_alive=0).ok
    assert ask("twin") == first  # what one name no longer needs stays for the other
    server.end()


def test_create_from_a_model_of_another_store(own, store):
    before = snapshot(store.root)
    told = lines(post(own, "/api/create", model="mine", **{"from": "tiny"}, system="Say no.",
                      parameters={"temperature": 0.5, "stop": ["a", "b"]}, messages=[{"role": "user", "content": "x"}]))
    assert told[-1] == {"status": "success"}
    shown = post(own, "/api/show", model="mine").json()
    assert shown["system"] == "Say no." and shown["template"] == TEMPLATE.decode()
    assert 'stop                           "a"' in shown["parameters"] and "num_predict" in shown["parameters"]
    assert shown["messages"] == [{"role": "user", "content": "x"}] and shown["license"] == "free"
    assert post(own, "/api/generate", model="mine", prompt="x", stream=False).json()["done"]
    assert snapshot(store.root) == before


def test_a_template_that_was_given_is_used(own):
    messages = [{"role": "user", "content": "Hi"}]
    template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}<think>{# enable_thinking </think> #}"
    assert post(own, "/api/create", model="mine", stream=False, template=template, **{"from": "tiny"}).json() == {"status": "success"}
    assert post(own, "/api/copy", source="mine", destination="twin").ok
    for name in ("mine", "twin"):
        assert post(own, "/apply-template", model=name, messages=messages).json()["prompt"] == "[user] Hi\n<think>"
        shown = post(own, "/api/show", model=name).json()
        assert shown["template"] == template and "thinking" in shown["capabilities"]
        context = post(own, "/api/generate", model=name, prompt="Hi", stream=False).json()["context"]
        text = post(own, "/detokenize", model=name, tokens=context).json()["content"]
        assert text.startswith("[system] Be brief.\n[user] Hi\n<think>")
    # The same file under another name, both loaded: each keeps its own template.
    assert post(own, "/api/create", model="other", stream=False, template="{{ messages[0].content }}!", **{"from": "mine"}).ok
    assert post(own, "/apply-template", model="other", messages=messages).json()["prompt"] == "Hi!"
    assert post(own, "/apply-template", model="mine", messages=messages).json()["prompt"] == "[user] Hi\n<think>"
    assert post(own, "/apply-template", model="tiny", messages=messages).json()["prompt"].startswith("<|im_start|>")


def test_create_from_a_file_that_was_sent(own):
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    url = f"{own.url}/api/blobs/sha256:{digest}"
    assert requests.head(url).status_code == 404
    wrong = requests.post(url, data=b"not it")
    assert wrong.status_code == 400 and wrong.json()["error"].startswith(f'digest mismatch, expected "sha256:{digest}"')
    assert requests.head(url).status_code == 404
    assert requests.post(url, data=WEIGHTS).status_code == 201
    assert requests.post(url, data=WEIGHTS).status_code == 200
    assert requests.head(url).status_code == 200
    assert requests.head(f"{own.url}/api/blobs/sha256:xyz").status_code == 400
    client = ollama.Client(host=own.url)
    assert client.create("sent", files={"a.gguf": f"sha256:{digest}"}, license=["one", "two"]).status == "success"
    shown = post(own, "/api/show", model="sent").json()
    assert shown["license"] == "one\ntwo" and shown["details"]["family"] == "qwen3"
    assert shown["details"]["parameter_size"]


def test_what_create_refuses(own):
    for body, status in [({}, 400), ({"model": "x"}, 400), ({"model": "x", "from": "none"}, 404),
                         ({"model": "x", "from": "broken:1b"}, 400), ({"model": "x", "from": "tiny", "quantize": "q4_0"}, 400),
                         ({"model": "x", "from": "tiny", "adapters": {"a": "sha256:1"}}, 400),
                         ({"model": "x", "from": "tiny", "parameters": {"temprature": 1}}, 400),
                         ({"model": "x", "from": "tiny", "parameters": {"temperature": "hot"}}, 400),
                         ({"model": "x", "files": {"a": "sha256:" + "0" * 64}}, 400)]:
        reply = post(own, "/api/create", stream=False, **body)
        assert reply.status_code == status and reply.json()["error"], body


def test_copy_and_delete(own, store, registry):
    model = add(registry)[0]
    post(own, "/api/pull", model="small:1b")
    assert post(own, "/api/copy", source="small:1b", destination="twin").status_code == 200
    assert post(own, "/api/copy", source="none", destination="x").json() == {"error": 'model "none" not found'}
    assert {"small:1b", "twin:latest"} <= names(own)
    post(own, "/api/generate", model="small:1b")  # loaded
    reply = requests.delete(own.url + "/api/delete", json={"model": "small:1b"})
    assert reply.status_code == 200 and reply.content == b""
    assert "small:1b" not in names(own)
    assert post(own, "/api/chat", model="twin", stream=False, messages=[{"role": "user", "content": "x"}]).ok
    assert (own.own / f"blobs/sha256-{model}").exists()  # the twin needs it
    assert requests.delete(own.url + "/api/delete", json={"model": "twin"}).ok
    assert not list((own.own / "blobs").iterdir())
    assert not [p for p in (own.own / "manifests").rglob("*") if p.is_file()]
    missing = requests.delete(own.url + "/api/delete", json={"model": "twin"})
    assert missing.status_code == 404 and missing.json() == {"error": "model 'twin' not found"}
    before = snapshot(store.root)
    others = requests.delete(own.url + "/api/delete", json={"model": "tiny"})
    assert others.status_code == 403 and "only read" in others.json()["error"]
    assert snapshot(store.root) == before and "tiny:latest" in names(own)


def test_read_only(start, store, tmp_path):
    server = start("--read-only", "--store", str(tmp_path / "own"))
    for path, body in [("/api/pull", {"model": "x"}), ("/api/create", {"model": "x", "from": "tiny"}),
                       ("/api/copy", {"source": "tiny", "destination": "x"}), ("/api/blobs/sha256:" + "0" * 64, {})]:
        assert post(server, path, **body).status_code == 403
    assert requests.delete(server.url + "/api/delete", json={"model": "tiny"}).status_code == 403
    assert not (tmp_path / "own").exists()
    server.end()


def test_big_uploads_are_not_bodies(start, store, tmp_path):
    server = start("--store", str(tmp_path / "own"), "--max-body", "1M")
    content = b"x" * 3_000_000
    digest = hashlib.sha256(content).hexdigest()
    assert requests.post(f"{server.url}/api/blobs/sha256:{digest}", data=content).status_code == 201
    reply = requests.post(server.url + "/api/chat", data=content)
    assert reply.status_code == 413 and reply.json() == {"error": "the request body is too long"}
    def pieces():
        yield from (content[i:i + 65536] for i in range(0, len(content), 65536))
    try:
        assert requests.post(server.url + "/api/chat", data=pieces()).status_code == 413  # its length not announced
    except requests.ConnectionError:
        pass  # closed while we were still sending
    assert requests.get(server.url + "/api/version").ok
    server.end()
