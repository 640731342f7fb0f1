#!/usr/bin/env python3
"""Accuracy of a GGUF file on Coterie: measure.py BIN_FOLDER MODEL.gguf EXPECTED.json [--devices cpu:3]

Starts coterie-server with the file and asks it every prompt of EXPECTED.json (made by shipped.py) as a client would.
"""

import argparse
import json
import re
import subprocess
import urllib.request
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def ask(url: str, prompt: dict, model: str) -> dict:
    body = {"model": model, "temperature": 0, "max_tokens": 160}
    body["messages"] = [{"role": "user", "content": prompt["question"]}]
    if "tools" in prompt:
        body["tools"] = prompt["tools"]
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)["choices"][0]["message"]


def parsed(text):
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return None


def is_right(prompt: dict, message: dict) -> bool:
    if prompt["kind"] == "tool":
        calls = message.get("tool_calls") or []
        made = [{"name": c["function"]["name"], "arguments": parsed(c["function"]["arguments"])} for c in calls]
        return made == [prompt["right"]]
    content = (message.get("content") or "").strip()
    return (parsed(content) if prompt["kind"] in ("json", "quote") else content) == prompt["right"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("expected", type=Path)
    parser.add_argument("--devices", default="cpu")
    options = parser.parse_args()
    command = [options.programs / "coterie-server", "--port", "0", "--parallel", "4", "--devices", options.devices]
    server = subprocess.Popen([*map(str, command), str(options.model)], stderr=subprocess.PIPE, text=True)
    try:
        for line in server.stderr:
            found = re.search(r"listening on (http://\S+)", line)
            if found:
                break
        name = options.model.stem
        prompts = json.loads(options.expected.read_text())["prompts"]
        with ThreadPoolExecutor(4) as pool:
            messages = list(pool.map(lambda p: ask(found[1], p, name), prompts))
    finally:
        server.terminate()
    right = defaultdict(list)
    for prompt, message in zip(prompts, messages):
        right[prompt["kind"]].append(is_right(prompt, message))
    for kind, values in right.items():
        print(f"{kind:12} {100 * sum(values) / len(values):6.1f} % of {len(values)}")


if __name__ == "__main__":
    main()
