"""Many connections, bad ones among them, and requests that are no requests: nothing leaks, nothing hangs. COTERIE_LOAD=full
is the full size, for a run by hand."""
import json
import os
import pathlib
import random
import socket
import threading
import time

import pytest
import requests

from conftest import SERVER

FULL = os.environ.get("COTERIE_LOAD") == "full"
CONNECTIONS, REQUESTS, MUTANTS = (200, 10000, 20000) if FULL else (60, 400, 1200)


def connect(server):
    host, port = server.url[7:].split(":")
    return socket.create_connection((host, int(port)), timeout=120)


def status_line(server, raw):
    with connect(server) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        data = b""
        while piece := connection.recv(65536):
            data += piece
    return data


def request(path, body, more=b""):
    data = json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n" % (path.encode(), more, len(data)) + data


def memory(server):
    for line in pathlib.Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024


def threads_and_files(server):
    folder = pathlib.Path(f"/proc/{server.process.pid}")
    return len(list((folder / "task").iterdir())), len(list((folder / "fd").iterdir()))


def busy(server):
    models = requests.get(server.url + "/status").json()["models"]
    return sum(m["running"] + m["waiting"] for m in models)


def wait_for(condition, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


@pytest.fixture(scope="module")
def loaded(start, folder, tmp_path_factory):
    # A store of its own: some of the changed bodies make models. Pulls stay on this machine, whatever they ask for.
    server = start("--models-dir", str(folder), "--parallel", "4", "--ctx", "512", "--max-queue", "1000",
                   "--registry", "http://127.0.0.1:1",
                   COTERIE_MODELS=str(tmp_path_factory.mktemp("own")))
    assert requests.post(server.url + "/api/generate", json={"model": "thinker"}).ok
    return server


def chats(server, count, workers):
    """count short chats by so many workers, each with a connection of its own; gives the statuses."""
    statuses, lock, left = [], threading.Lock(), iter(range(count))

    def work():
        with requests.Session() as session:
            while True:
                with lock:
                    number = next(left, None)
                if number is None:
                    return
                path, body = (("/api/chat", {"stream": number % 2 == 0, "options": {"num_predict": 2}}),
                              ("/v1/chat/completions", {"stream": number % 2 == 0, "max_tokens": 2}))[number % 3 == 0]
                reply = session.post(server.url + path, timeout=300, json={
                    "model": "thinker", "messages": [{"role": "user", "content": f"Number {number % 50}"}], **body})
                with lock:
                    statuses.append(reply.status_code)
                assert reply.content

    workers = [threading.Thread(target=work) for _ in range(workers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return statuses


def test_connections_of_all_kinds(loaded):
    chats(loaded, CONNECTIONS, 20)  # everything that grows once has grown
    before = memory(loaded)
    long = {"model": "thinker", "stream": True, "grammar": "root ::= [a-z]{400}", "messages": [{"role": "user", "content": "x"}]}
    # Half a request, then silence; requests whose answers are read slowly or not at all; connections that say nothing.
    half_open = [connect(loaded) for _ in range(CONNECTIONS // 4)]
    for i, connection in enumerate(half_open):
        connection.sendall(request("/api/chat", long)[:20 + 7 * (i % 20)])
    slow = [connect(loaded) for _ in range(CONNECTIONS // 4)]
    for connection in slow:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.sendall(request("/api/chat", long))
    silent = [connect(loaded) for _ in range(CONNECTIONS // 4)]
    statuses = chats(loaded, REQUESTS, max(4, CONNECTIONS // 4))
    assert len(statuses) == REQUESTS and set(statuses) == {200}
    text = b""
    slow[0].settimeout(120)
    while b'"done":true' not in text:
        piece = slow[0].recv(64)
        assert piece, text[-2000:]
        text += piece
    for connection in half_open + slow + silent:
        connection.close()
    assert wait_for(lambda: busy(loaded) == 0)
    wait_for(lambda: threads_and_files(loaded)[1] < 30)
    assert threads_and_files(loaded)[1] < 30  # all connections are closed
    grown = memory(loaded) - before
    if b"__asan_init" in SERVER.read_bytes():
        print("growth is not judged under AddressSanitizer, which keeps freed memory and looks for leaks itself")
    else:
        assert grown < 60e6, f"{grown / 1e6:.0f} MB more than before"


def test_prompts_of_a_megabyte(loaded, other):
    text = "word " * 200_000
    reply = requests.post(loaded.url + "/v1/chat/completions", json={
        "model": "thinker", "messages": [{"role": "user", "content": text}]}, timeout=300)
    assert reply.status_code == 400 and reply.json()["error"]["type"] == "exceed_context_size_error"
    many = [{"role": "user", "content": text[:50_000]} for _ in range(20)] + [{"role": "user", "content": "Hi"}]
    answer = requests.post(loaded.url + "/api/chat", json={
        "model": "thinker", "messages": many, "stream": False, "options": {"num_predict": 2}}, timeout=300).json()
    assert answer["truncated"] and answer["done"]
    reply = requests.post(loaded.url + "/api/embed", json={"model": "embedder", "input": text}, timeout=300)
    assert len(reply.json()["embeddings"]) == 1


def test_a_client_that_goes_during_the_prompt(start, folder):
    server = start("--models-dir", str(folder), "--ctx", "60000")
    body = {"model": "long", "messages": [{"role": "user", "content": "word " * 11000}]}
    for stream in (True, False):
        with connect(server) as connection:
            connection.sendall(request("/v1/chat/completions", {**body, "stream": stream}))
            assert wait_for(lambda: busy(server) > 0)
        begin = time.time()
        assert wait_for(lambda: busy(server) == 0)
        assert requests.get(server.url + "/metrics").text.count("coterie_cancelled_total") and time.time() - begin < 30
    server.end()


@pytest.mark.parametrize("raw", [
    b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 500, b"GET / HTTP/1.1\r\nHost: " + b"a" * 20000 + b"\r\n\r\n",
    b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
    b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n{}",
    b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
    b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
    b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 5\r\n\r\n--x--",
    b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /v1/models/%00%ff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", b"".join(b"X%d: y\r\n" % i for i in range(5000)) + b"\r\n"])
def test_requests_that_are_none(loaded, raw):
    data = status_line(loaded, raw)
    assert not data or data.startswith(b"HTTP/1.1 ") and data[9:10] in (b"2", b"4", b"5")
    assert b"root:" not in data
    assert requests.get(loaded.url + "/api/version").ok


SEEDS = [
    ("/api/chat", {"model": "thinker", "messages": [{"role": "user", "content": "x", "images": []}], "stream": False,
                   "think": False, "format": "json", "keep_alive": "5m", "options": {"num_predict": 3, "seed": 1, "stop": ["a"]},
                   "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
                       "a": {"type": ["string", "null"]}}}}}], "logprobs": True, "top_logprobs": 2, "truncate": True}),
    ("/api/generate", {"model": "thinker", "prompt": "x", "system": "y", "stream": True, "raw": False, "context": [1, 2],
                       "options": {"num_predict": 3, "num_ctx": 64}}),
    ("/v1/chat/completions", {"model": "thinker", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
                              "max_tokens": 3, "n": 2, "stream": False, "temperature": 0.5, "logit_bias": {"5": 1.5},
                              "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
                              "stream_options": {"include_usage": True}, "tool_choice": "auto", "reasoning_effort": "low"}),
    ("/v1/completions", {"model": "thinker", "prompt": ["x", "y"], "max_tokens": 3, "echo": True, "logprobs": 2}),
    ("/v1/embeddings", {"model": "embedder", "input": ["x", "y"], "dimensions": 8, "encoding_format": "base64"}),
    ("/api/embed", {"model": "embedder", "input": ["x"], "truncate": True, "options": {"num_ctx": 64}}),
    ("/api/show", {"model": "thinker", "verbose": False}), ("/tokenize", {"model": "thinker", "content": "x", "with_pieces": True}),
    ("/detokenize", {"model": "thinker", "tokens": [1, 2]}), ("/apply-template", {"model": "thinker", "messages": []}),
    ("/api/create", {"model": "m", "from": "none", "parameters": {"stop": ["x"]}, "files": {"a": "sha256:0"}}),
    ("/api/pull", {"model": "none", "insecure": True}), ("/api/copy", {"source": "none", "destination": "x"})]
VALUES = [None, True, False, 0, 1, -1, 3, 2**31, 2**63, -2**63, 1e308, 0.5, "", "x", "\x00", "\ud83d\ude00", "a" * 3000, [], {}, [[]],
          {"a": {}}, [1, "x", None], {"type": "object"}, {"$ref": "#"}, "json", "required", "-1", "none", "thinker"]


def mutate(random_, value):
    """Another value at one place somewhere inside."""
    if isinstance(value, dict) and value and random_.random() < 0.85:
        key = random_.choice(list(value))
        if random_.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: mutate(random_, value[key])}
    if isinstance(value, list) and value and random_.random() < 0.8:
        at = random_.randrange(len(value))
        return value[:at] + [mutate(random_, value[at])] * random_.choice([1, 1, 1, 2]) + value[at + 1:]
    return random_.choice(VALUES)


def test_bodies_changed_at_random(loaded):
    random_ = random.Random(int(os.environ.get("COTERIE_SEED", "20261130")))
    session = requests.Session()
    counted = {}
    for number in range(MUTANTS):
        path, body = random_.choice(SEEDS)
        for _ in range(random_.randrange(1, 4)):
            body = mutate(random_, body)
        data = json.dumps(body).encode()
        if random_.random() < 0.2:  # bytes too
            data = bytearray(data)
            for _ in range(random_.randrange(1, 4)):
                data[random_.randrange(len(data))] = random_.randrange(256)
        reply = session.post(loaded.url + path, data=bytes(data), timeout=120)
        counted[reply.status_code] = counted.get(reply.status_code, 0) + 1
        said = f"{path} {bytes(data)!r} -> {reply.status_code} {reply.content[:300]!r}"
        assert reply.status_code in (200, 400, 404, 500, 501, 502), said
        if reply.status_code == 500:  # only what Ollama calls so
            assert b"invalid format" in reply.content, said
        if reply.headers.get("Content-Type", "").startswith("application/json"):
            assert reply.status_code == 200 or reply.json()["error"], said
        else:
            reply.content.decode()  # UTF-8
    assert loaded.process.poll() is None and counted[200] > MUTANTS // 50 and counted[400] > MUTANTS // 50
    assert wait_for(lambda: busy(loaded) == 0)


def test_headers_that_never_end(start, store):
    """Byte by byte, so that no single read waits long: the connection ends all the same."""
    server = start("--header-timeout", "2")
    with connect(server) as slow:
        slow.settimeout(0.2)
        slow.sendall(b"GET /api/version HTTP/1.1\r\nX: ")
        begin, ended = time.time(), False
        while not ended and time.time() < begin + 60:
            try:
                slow.sendall(b"x")
                ended = slow.recv(100) == b""
            except TimeoutError:
                pass
            except OSError:
                ended = True
        assert ended and time.time() - begin > 1.5
    assert requests.get(server.url + "/api/version").ok
    server.end()
