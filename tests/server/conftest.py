"""A running coterie-server with tiny models of random weights: a store as Ollama leaves it, and a file."""
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import threading

import pytest

from gguf_patch import patch

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "data" / "golden"
SERVER = pathlib.Path(os.environ.get("COTERIE_SERVER", ROOT / "build" / "bin" / "coterie-server"))


# As the templates of models that think and call tools.
THINKING_TEMPLATE = """{%- if tools %}<|im_start|>system
# Tools
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
For each call give a JSON object within <tool_call></tool_call>:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.role == 'assistant' and m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}
{%- for c in m.tool_calls or [] %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}{% endif %}"""


class Store:
    """An Ollama store: manifests and blobs."""

    def __init__(self, root):
        self.root = root

    def blob(self, content):
        digest = hashlib.sha256(content).hexdigest()
        path = self.root / "blobs" / f"sha256-{digest}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return digest, path

    def add(self, name, layers):
        model, tag = name.split(":")
        config = {"model_format": "gguf", "model_family": "qwen3", "model_families": ["qwen3"],
                  "model_type": "147.02K", "file_type": "F32"}
        entries = []
        for kind, content in layers:
            digest, _ = self.blob(content)
            entries.append({"mediaType": f"application/vnd.ollama.image.{kind}", "digest": f"sha256:{digest}",
                            "size": len(content)})
        digest, path = self.blob(json.dumps(config).encode())
        manifest = {"schemaVersion": 2, "layers": entries,
                    "config": {"digest": f"sha256:{digest}", "size": path.stat().st_size}}
        path = self.root / "manifests" / "registry.ollama.ai" / "library" / model / tag
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(manifest))
        return path


class Server:
    def __init__(self, arguments, environment):
        self.process = subprocess.Popen([str(SERVER), "--port", "0", "--threads", "1", *arguments],
                                        stderr=subprocess.PIPE, text=True, env=environment)
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            match = re.search(r"listening on (http://\S+)", line)
            if match:
                self.url = match[1]
                break
        else:
            raise RuntimeError("the server did not start:\n" + "".join(self.log))
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    kept = {key: os.environ[key] for key in ("PATH", "ASAN_OPTIONS", "LSAN_OPTIONS") if key in os.environ}
    return {**kept, "HOME": str(home)}


@pytest.fixture(scope="session")
def store(environment):
    store = Store(pathlib.Path(environment["HOME"]) / ".ollama" / "models")
    weights = (GOLDEN / "qwen3.gguf").read_bytes()
    template = b"{{ range .Messages }}{{ .Role }}: {{ .Content }}\n{{ end }}assistant: "
    store.add("tiny:latest", [("model", weights), ("template", template), ("system", b"Be brief."),
                              ("params", b'{"stop": ["<end>"], "temperature": 0, "num_predict": 12}'),
                              ("license", b"free")])
    store.add("broken:1b", [("model", b"x" * 100)])
    digest = hashlib.sha256(b"x" * 100).hexdigest()
    (store.root / "blobs" / f"sha256-{digest}").write_bytes(b"x" * 50)
    return store


@pytest.fixture(scope="session")
def server(store, environment):
    server = Server([str(GOLDEN / "llama.gguf"), "--parallel", "2", "--max-models", "2"], environment)
    yield server
    assert server.end() == 0, "".join(server.log)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder of models that are made to think, call tools, embed, fill in, and take long prompts."""
    folder = tmp_path_factory.mktemp("models")
    weights = (GOLDEN / "qwen3.gguf").read_bytes()
    for name, changes in {
            "thinker": {"tokenizer.chat_template": THINKING_TEMPLATE},
            "embedder": {"qwen3.pooling_type": 1},
            "filler": {f"tokenizer.ggml.fim_{part}_token_id": 33 + i for i, part in enumerate(("pre", "suf", "mid"))},
            "long": {"qwen3.context_length": 400000}}.items():
        (folder / f"{name}.gguf").write_bytes(patch(weights, changes))
    return folder


@pytest.fixture(scope="session")
def other(folder, environment):
    """A server of these models."""
    server = Server(["--models-dir", str(folder), "--parallel", "4"], environment)
    yield server
    assert server.end() == 0, "".join(server.log)


@pytest.fixture(scope="session")
def start(environment):
    """Starts further servers, with options of their own."""
    servers = []

    def begin(*arguments, **variables):
        servers.append(Server(arguments, {**environment, **variables}))
        return servers[-1]

    yield begin
    for one in servers:
        one.end()
