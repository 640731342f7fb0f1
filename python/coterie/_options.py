"""Options of chats and generations, from Python's forms to the C interface's."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, TypedDict, Union

from ._errors import InvalidArgument


class ChatOptions(TypedDict, total=False):
    """How a conversation becomes a prompt."""

    thinking: Optional[bool]  # None: as the template has it
    reasoning_effort: Optional[str]  # "low", "medium", "high", ...
    chat_template: Optional[str]  # Jinja, or Ollama's Go form, instead of the model's
    variables: Optional[Mapping[str, Any]]  # further variables of the template
    add_generation_prompt: bool  # False: end after the last message
    continue_last_message: bool  # the last message is the start of the answer


class GenerationOptions(TypedDict, total=False):
    """How tokens are chosen and when to end. What is left out, or None, is the model's own default."""

    max_tokens: Optional[int]
    temperature: Optional[float]  # 0: greedy
    top_k: Optional[int]  # 0: off
    top_p: Optional[float]  # 1: off
    min_p: Optional[float]  # 0: off
    typical_p: Optional[float]  # 1: off
    repeat_penalty: Optional[float]  # 1: off
    presence_penalty: Optional[float]
    frequency_penalty: Optional[float]
    penalty_tokens: Optional[int]  # how far back penalties look; -1: everything
    seed: Optional[int]
    stop: Union[None, str, Sequence[str]]  # end the answer, and are left out of it
    logit_bias: Optional[Mapping[int, float]]
    logprobs: Union[None, bool, int]  # report each token's log-probability, and of so many alternatives
    json_schema: Union[None, str, Mapping[str, Any]]  # the answer is JSON that fits it
    grammar: Optional[str]  # the answer fits this GBNF
    priority: int  # higher goes first
    time_limit: Optional[float]  # seconds
    ignore_end: bool  # go on after end tokens
    special_text: bool  # control tokens give their text
    shift_context: bool  # when the context is full forget the older half and go on
    prefill_events: bool  # tell how much of the prompt is computed
    raw: bool  # a chat's text as it comes, not sorted into content, reasoning and calls


GREEDY, IGNORE_END, SPECIAL_TEXT, LOGPROBS, SHIFT_CONTEXT, RAW, PREFILL = 1, 2, 4, 8, 16, 32, 64
_FLAGS = {
    "ignore_end": IGNORE_END,
    "special_text": SPECIAL_TEXT,
    "shift_context": SHIFT_CONTEXT,
    "raw": RAW,
    "prefill_events": PREFILL,
}
_SAME = (
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "penalty_tokens",
    "seed",
    "grammar",
    "priority",
)


def generation_options(given: Mapping[str, Any]) -> Dict[str, Any]:
    options = {key: value for key, value in given.items() if value is not None}
    native: Dict[str, Any] = {}
    flags = 0
    for key, flag in _FLAGS.items():
        if options.pop(key, False):
            flags |= flag
    for key in _SAME:
        if key in options:
            native[key] = options.pop(key)
    # In the C interface zero stands for the default; here it is what it says.
    if native.get("temperature") == 0:
        flags |= GREEDY
    if native.get("top_k") == 0:
        native["top_k"] = -1
    if native.get("min_p") == 0:
        native["min_p"] = 1e-9
    if native.get("max_tokens") == 0:
        raise InvalidArgument("max_tokens is 0; leave it out for no limit, or ask for at least one token")
    logprobs = options.pop("logprobs", False)
    if logprobs is not False:
        flags |= LOGPROBS
        native["top_logprobs"] = 0 if logprobs is True else logprobs
    stop = options.pop("stop", None)
    if stop is not None:
        native["stop"] = [stop] if isinstance(stop, str) else list(stop)
    bias = options.pop("logit_bias", None)
    if bias is not None:
        native["bias"] = dict(bias)
    schema = options.pop("json_schema", None)
    if schema is not None:
        native["json_schema"] = schema if isinstance(schema, str) else json.dumps(schema)
    limit = options.pop("time_limit", None)
    if limit is not None:
        native["time_limit_ms"] = max(1, round(limit * 1000))
    tool_choice = options.pop("tool_choice", None)
    if tool_choice is not None:
        native["tool_choice"] = tool_choice
    if options:
        raise TypeError(f"there is no option {sorted(options)[0]!r} of a generation")
    native["flags"] = flags
    return native


CHAT_KEYS = frozenset(ChatOptions.__annotations__)


def chat_options(given: Mapping[str, Any]) -> Dict[str, Any]:
    options = dict(given)
    native: Dict[str, Any] = {}
    thinking = options.pop("thinking", None)
    if thinking is not None:
        native["thinking"] = 1 if thinking else -1
    for key in ("reasoning_effort", "chat_template"):
        native[key] = options.pop(key, None)
    variables = options.pop("variables", None)
    if variables is not None:
        native["variables_json"] = json.dumps(variables)
    native["no_generation_prompt"] = 0 if options.pop("add_generation_prompt", True) else 1
    native["continue_last_message"] = 1 if options.pop("continue_last_message", False) else 0
    if options:
        raise TypeError(f"there is no option {sorted(options)[0]!r} of a chat")
    return native


def split_options(given: Mapping[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Options of a chat and of a generation, in the C interface's form."""
    chat = {key: value for key, value in given.items() if key in CHAT_KEYS}
    rest = {key: value for key, value in given.items() if key not in CHAT_KEYS}
    return chat_options(chat), generation_options(rest)


def messages_json(messages: Union[str, Sequence[Mapping[str, Any]]]) -> str:
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return json.dumps(list(messages))


def schema_of(response_format: Optional[Mapping[str, Any]]) -> Optional[str]:
    """The schema that OpenAI's response_format asks for; None for text."""
    if response_format is None:
        return None
    kind = response_format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return "{}"
    if kind == "json_schema":
        wanted = response_format.get("json_schema")
        schema = wanted.get("schema") if isinstance(wanted, Mapping) else None
        if isinstance(schema, Mapping):
            return json.dumps(schema)
        raise InvalidArgument('response_format["json_schema"]["schema"] is missing or no object')
    raise InvalidArgument(
        f'response_format["type"] is {kind!r}; "text", "json_object" and "json_schema" are known'
    )


def choice_of(tool_choice: Union[None, str, Mapping[str, Any]]) -> Optional[str]:
    """OpenAI's tool_choice as the C interface has it."""
    if tool_choice is None or isinstance(tool_choice, str):
        return tool_choice
    function = tool_choice.get("function")
    if isinstance(function, Mapping) and isinstance(function.get("name"), str):
        return str(function["name"])
    raise InvalidArgument('tool_choice["function"]["name"] is missing')
