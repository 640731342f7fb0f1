#!/usr/bin/env python3
"""Renders the test data with Python's Jinja2, set up as Hugging Face transformers sets it up, and writes what came out.

    python3 tests/jinja/make_expectations.py      (needs: pip install jinja2)

Reads  tests/data/jinja/expressions.txt       one small template a line
       tests/data/jinja/conversations.json    named conversations: messages, tools, options
       tests/data/jinja/families/*.jinja      our restatements of chat templates
Writes tests/data/jinja/expressions.json, tests/data/jinja/families.json

With folders of other templates as arguments it prints a JSON document in the form of families.json for those, with the
template texts in it, to try the interpreter on templates that can't be committed (COTERIE_TEMPLATES names such a file).
"""
import copy
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "jinja"
NOW = datetime.datetime(2025, 3, 4, 15, 6, 7)  # what strftime_now says; 1741100767 in seconds

VARIABLES = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Größe? 😀 \"quoted\" <tag>\nline"},
        {"role": "assistant", "content": "1,80 m"},
    ],
    "numbers": [3, 1, 2],
    "matrix": [[1, 2], [3, 4]],
    "tool": {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather — now & later",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3, "max": 1.5}},
                "required": ["city", "days"],
            },
        },
    },
    "people": [
        {"name": "Ann", "age": 31, "team": "x", "admin": True},
        {"name": "Bob", "age": 25, "team": "y", "admin": False},
        {"name": "Cid", "age": 40, "team": "x"},
    ],
    "tree": [{"name": "a", "children": [{"name": "b", "children": []}, {"name": "c", "children": [{"name": "d"}]}]}],
}


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what the assistant said; the text itself passes unchanged."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


ENVIRONMENT = environment()


def rendered(template, variables):
    """{"text": ...} or {"raises": message} (the template's own exception) or {"fails": what Python said}."""
    try:
        return {"text": ENVIRONMENT.from_string(template).render(**variables)}
    except jinja2.exceptions.TemplateError as error:
        own = type(error) is jinja2.exceptions.TemplateError
        return {"raises" if own else "fails": str(error)}
    except Exception as error:  # whatever Python throws in a template is a failure of the template
        return {"fails": f"{type(error).__name__}: {error}"}


def expressions():
    cases = []
    for line in (DATA / "expressions.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# ") or not line:
            continue
        template = json.loads(line) if line.startswith('"') else line
        cases.append({"template": template, **rendered(template, VARIABLES)})
    return {"variables": VARIABLES, "now": 1741100767, "cases": cases}


def variables_of(conversation):
    """What a template is given: content that is null or absent is "", other null fields go, and the arguments of tool
    calls are objects; the reasoning goes by the two names templates use."""
    messages = []
    for message in conversation["messages"]:
        message = {key: value for key, value in message.items() if value is not None}
        if "content" not in message:
            message["content"] = ""
        if "reasoning_content" in message:
            message.setdefault("thinking", message["reasoning_content"])
        for call in message.get("tool_calls", []):
            arguments = call["function"]["arguments"]
            if isinstance(arguments, str):
                call["function"]["arguments"] = json.loads(arguments)
        messages.append(message)
    return {
        "messages": messages,
        "tools": conversation.get("tools"),
        "add_generation_prompt": conversation.get("add_generation_prompt", True),
        **conversation.get("variables", {}),
    }


def families(folders, with_text):
    conversations = json.loads((DATA / "conversations.json").read_text(encoding="utf-8"))
    variables = {name: variables_of(conversation) for name, conversation in conversations.items()}
    tokens = json.loads((DATA / "special_tokens.json").read_text(encoding="utf-8"))
    result = {}
    for path in sorted(path for folder in folders for path in pathlib.Path(folder).glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        special = tokens.get(path.stem, {"bos_token": "<s>", "eos_token": "</s>"})
        cases = {name: rendered(source, {**copy.deepcopy(given), **special}) for name, given in variables.items()}
        result[path.stem] = {"special": special, **({"template": source} if with_text else {}), "cases": cases}
    return {"now": 1741100767, "variables": variables, "families": result}


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        json.dump(families(sys.argv[1:], True), sys.stdout, ensure_ascii=False)
    else:
        write(DATA / "expressions.json", expressions())
        write(DATA / "families.json", families([DATA / "families"], False))
