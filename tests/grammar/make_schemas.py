#!/usr/bin/env python3
"""Makes tests/data/grammar/schemas.json: schemas with texts to derive and texts to refuse, judged by `jsonschema`.

Usage: pip install "jsonschema[format]" && tests/grammar/make_schemas.py
Hand-written schemas come with hand-written texts; random schemas with random values for them and mutations of these.
A text is listed under "refuse" only if jsonschema says it is invalid (or it isn't JSON); a text under "derive" is valid.
"""
import json
import pathlib
import random

from jsonschema import Draft202012Validator

S = {"type": "string"}
I = {"type": "integer"}
N = {"type": "number"}
B = {"type": "boolean"}


def obj(properties, required=None, **more):
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required,
            "additionalProperties": False, **more}


# (schema, texts it must derive, texts it must refuse)
HAND = [
    (S, ['""', '"a"', '"漢字 🦊"', r'"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"'], ['a', '"', '"a', r'"\x"', '"\n"', r'"\ud800"', '1']),
    (I, ["0", "-1", "123456789012345"], ["01", "1.0.0", "-", "+1", '"1"', "1.5"]),
    (N, ["0", "-0.5", "1e10", "12.25E-3", "3"], [".5", "1.", "1e", "--1", "NaN", "Infinity"]),
    (B, ["true", "false"], ["True", "1", "null"]),
    ({"type": "null"}, ["null"], ["nul", "0", '""']),
    ({}, ["1", '"a"', "[]", "{}", '{"a":[null,{"b":true}]}', '[1, "x"]'], ["", "[1,]", "{a:1}", "{\"a\":1,}"]),
    ({"type": "object"}, ["{}", '{"a":1}', '{"a":1,"b":{"c":[]}}'], ["[]", "{", '{"a"}']),
    ({"type": "array"}, ["[]", "[1]", '[1,"a",[],{}]', "[1, 2]"], ["{}", "[", "[,1]"]),
    ({"type": ["string", "null"]}, ['"x"', "null"], ["1", "true"]),
    ({"type": ["integer", "boolean", "array"]}, ["5", "true", "[]"], ['"x"', "null", "1.5"]),
    ({"enum": ["red", "green", 1, None, True, 1.5, "漢\"\\\n"]}, ['"red"', "1", "null", "true", "1.5", r'"漢\"\\\n"'], ['"blue"', "2", "false"]),
    ({"const": {"a": [1, "b"]}}, ['{"a":[1,"b"]}'], ["{}", '{"a":[1]}']),
    ({"const": "x"}, ['"x"'], ['"y"']),
    ({"type": "string", "enum": ["a", "b", 3]}, ['"a"'], ["3", '"c"']),
    ({"enum": ["abc", "ab", "a"], "minLength": 2}, ['"abc"', '"ab"'], ['"a"']),
    (obj({"name": S, "age": I}), ['{"name":"Ann","age":3}', '{"name": "Ann", "age": 3}'],
     ['{"name":"Ann"}', "{}", '{"name":"Ann","age":"3"}', '{"name":"Ann","age":3,"x":1}']),
    (obj({"a": I, "b": I, "c": I}, ["b"]), ['{"b":1}', '{"a":1,"b":2}', '{"b":1,"c":2}', '{"a":1,"b":2,"c":3}'],
     ["{}", '{"a":1}', '{"a":1,"c":2}', '{"b":1,}', '{,"b":1}']),
    (obj({"a": I, "b": I}, []), ["{}", '{"a":1}', '{"b":1}', '{"a":1,"b":1}'], ['{"c":1}', '{"a":"x"}']),
    (obj({}), ["{}"], ['{"a":1}']),
    (obj({"schlüssel \"x\"\n": I, "漢": S}), ['{"schlüssel \\"x\\"\\n":1,"漢":"é"}'], ['{"漢":"é"}']),
    ({"type": "object", "properties": {"a": I}, "required": ["a"], "additionalProperties": S},
     ['{"a":1}', '{"a":1,"b":"x"}', '{"a":1,"aa":"x","":"y"}', r'{"a":1,"b\"":"x"}'], ['{"a":1,"b":2}', '{"b":"x"}', '{"a":"x"}', '{"a":1,"a":"x"}']),
    ({"type": "object", "properties": {"ab": I, "abc": I, "b": I}, "additionalProperties": True},
     ["{}", '{"ab":1,"a":"x"}', '{"abcd":[],"bb":null}', '{"b":1,"c":{}}'], ['{"ab":"x"}', '{"b":null}', '{"abc":[]}']),
    ({"type": "object", "additionalProperties": I}, ["{}", '{"x":1}', '{"x":1,"y":2}'], ['{"x":"1"}']),
    ({"type": "object", "additionalProperties": I, "minProperties": 1, "maxProperties": 2}, ['{"x":1}', '{"x":1,"y":2}'], ["{}", '{"x":1,"y":2,"z":3}']),
    (obj({"a": I, "b": I, "c": I}, [], minProperties=2), ['{"a":1,"b":1}', '{"b":1,"c":1}', '{"a":1,"b":1,"c":1}'], ["{}", '{"b":1}']),
    (obj({"a": I, "b": I, "c": I}, [], maxProperties=1), ["{}", '{"a":1}', '{"c":1}'], ['{"a":1,"c":1}']),
    ({"type": "object", "propertyNames": {"pattern": "^[a-z]{2}$"}, "additionalProperties": I}, ["{}", '{"ab":1}'], ['{"a":1}', '{"ab":"x"}']),
    ({"type": "object", "patternProperties": {"^x_": I}, "additionalProperties": False}, ["{}", '{"x_1":1,"x_":2}'], ['{"y":1}', '{"x_a":"s"}']),
    ({"type": "object", "required": ["z"]}, ['{"z":1}', '{"z":{"a":[]}}'], ["{}", '{"y":1}']),
    ({"type": "array", "items": I}, ["[]", "[1]", "[1,2,3]"], ['["a"]', "[1,true]"]),
    ({"type": "array", "items": I, "minItems": 2, "maxItems": 3}, ["[1,2]", "[1,2,3]"], ["[]", "[1]", "[1,2,3,4]"]),
    ({"type": "array", "items": I, "maxItems": 0}, ["[]"], ["[1]"]),
    ({"type": "array", "items": {"type": "array", "items": S, "minItems": 1}, "minItems": 1}, ['[["a"]]', '[["a","b"],["c"]]'], ["[]", "[[]]", '["a"]']),
    ({"type": "array", "prefixItems": [S, I], "items": False, "minItems": 2}, ['["a",1]'], ["[]", '["a"]', '["a",1,2]', '[1,"a"]']),
    ({"type": "array", "prefixItems": [S, I], "items": B}, ["[]", '["a"]', '["a",1]', '["a",1,true,false]'], ['["a",1,2]', "[1]"]),
    ({"type": "array", "items": {"enum": [1, 2]}, "minItems": 20, "maxItems": 30}, ["[" + ",".join("1" * 20) + "]", "[" + ",".join("2" * 30) + "]"],
     ["[" + ",".join("1" * 19) + "]", "[" + ",".join("1" * 31) + "]"]),
    ({"type": "string", "minLength": 2, "maxLength": 4}, ['"ab"', '"漢字🦊é"', r'"\n\u0041"', r'"\ud83d\ude00x"'], ['"a"', '"abcde"', r'"\ud83d\ude00"']),
    ({"type": "string", "maxLength": 0}, ['""'], ['"a"']),
    ({"type": "string", "minLength": 50}, ['"' + "x" * 50 + '"', '"' + "é" * 70 + '"'], ['"' + "x" * 49 + '"']),
    ({"type": "string", "pattern": "^[A-Z]{3}-\\d+$"}, ['"ABC-1"', '"XYZ-0042"'], ['"AB-1"', '"ABC-"', '"xABC-1"']),
    ({"type": "string", "pattern": "b+"}, ['"b"', '"abbc"', '"漢b\\n"'], ['"a"', '""']),
    ({"type": "string", "pattern": "^(a|b\"|\\\\)*$"}, ['""', r'"ab\"\\a"'], ['"b"', '"c"']),
    ({"type": "string", "pattern": "^\\S+\\s\\S+$"}, ['"a b"', r'"é\t漢"'], ['"ab"', '" a"']),
    ({"type": "string", "pattern": "^[^\\x00-\\x1f\"]+$"}, ['"aé"'], [r'"a\n"', r'"\""', '""']),
    ({"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5}, ['"ab"', '"abcde"'], ['"a"', '"abcdef"', '"A"']),
    ({"type": "string", "pattern": "^x{2,3}$", "minLength": 1}, ['"xx"'], ['"x"']),
    ({"type": "string", "format": "date"}, ['"2024-02-29"', '"1999-12-31"', '"2000-02-29"'], ['"2023-02-29"', '"1900-02-29"', '"2024-13-01"', '"2024-04-31"', '"24-01-01"']),
    ({"type": "string", "format": "date-time"}, ['"2024-02-29T23:59:59Z"', '"2024-01-01T00:00:00.25+02:00"'], ['"2024-01-01"', '"2024-01-01T25:00:00Z"', '"2024-01-01T00:00:00"']),
    ({"type": "string", "format": "time"}, ['"23:59:59Z"', '"01:02:03.5-05:30"'], ['"24:00:00Z"', '"1:2:3Z"']),
    ({"type": "string", "format": "email"}, ['"a@b.co"', '"first.last+x@mail.example.org"'], ['"a"', '"ab.co"']),
    ({"type": "string", "format": "uuid"}, ['"123e4567-e89b-12d3-a456-426614174000"'], ['"123e4567e89b12d3a456426614174000x"', '"123"']),
    ({"type": "string", "format": "ipv4"}, ['"127.0.0.1"', '"255.255.255.255"'], ['"256.0.0.1"', '"1.2.3"', '"01.2.3.4"']),
    ({"type": "string", "format": "ipv6"}, ['"::1"', '"1:2:3:4:5:6:7:8"', '"fe80::1"'], ['"1:2"', '"g::1"', '"1::2::3"']),
    ({"type": "string", "format": "uri"}, ['"https://example.org/a?b=c#d"', '"http://localhost.local:80"'], []),
    ({"type": "string", "format": "duration"}, ['"P1Y2M3D"', '"PT5M"', '"P3W"'], []),
    ({"type": "string", "format": "hostname"}, ['"example.org"', '"a-b.example.com"'], ['"-a.org"']),
    ({"type": "integer", "minimum": 0}, ["0", "7", "12345"], ["-1"]),
    ({"type": "integer", "minimum": -5, "maximum": 12}, [str(i) for i in range(-5, 13)], ["-6", "13", "100", "-10"]),
    ({"type": "integer", "minimum": 95, "maximum": 1203}, ["95", "99", "100", "999", "1000", "1203"], ["94", "1204", "9", "2000", "12030"]),
    ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10}, ["1", "9"], ["0", "10"]),
    ({"type": "integer", "maximum": -3}, ["-3", "-4", "-100"], ["-2", "0", "3"]),
    ({"type": "integer", "minimum": 1.5, "maximum": 3.5}, ["2", "3"], ["1", "4"]),
    ({"type": "integer", "multipleOf": 7}, ["0", "7", "-14", "700"], ["1", "8", "-13"]),
    ({"type": "integer", "multipleOf": 5, "minimum": -10, "maximum": 30}, ["-10", "0", "25", "30"], ["-15", "35", "3"]),
    ({"type": "number", "minimum": 0}, ["0", "0.5", "12", "3.25"], ["-0.5", "-1"]),
    ({"type": "number", "minimum": -1.5, "maximum": 2.75}, ["-1.5", "-1.25", "-0.3", "0", "2.75", "2.7", "2", "1.999"], ["-1.51", "2.76", "3", "-2", "2.8"]),
    ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, ["0.5", "0.001", "0.99"], ["0", "1", "0.0", "1.0", "1.5", "-0.5"]),
    ({"type": "number", "minimum": 3.14, "maximum": 3.15}, ["3.14", "3.141", "3.15", "3.149"], ["3.1", "3.16", "3", "3.139", "3.151"]),
    ({"type": "number", "maximum": 100}, ["100", "99.9", "-5", "-1000.5"], ["100.1", "101"]),
    ({"type": "number", "exclusiveMaximum": -0.5}, ["-0.6", "-1", "-20.25"], ["-0.5", "0", "-0.4"]),
    ({"type": "number", "multipleOf": 3}, ["0", "3", "-9"], ["1", "2.5"]),
    ({"anyOf": [S, I]}, ['"x"', "5"], ["true", "1.5", "null"]),
    ({"anyOf": [obj({"kind": {"const": "a"}, "x": I}), obj({"kind": {"const": "b"}, "y": S})]},
     ['{"kind":"a","x":1}', '{"kind":"b","y":"z"}'], ['{"kind":"a","y":"z"}', '{"kind":"c"}']),
    ({"oneOf": [{"type": "integer"}, {"type": "string", "maxLength": 2}]}, ["1", '"ab"'], ['"abc"', "null"]),
    ({"type": "object", "properties": {"a": I}, "required": ["a"], "anyOf": [{"properties": {"b": S}, "required": ["b"]}, {"properties": {"c": B}, "required": ["c"]}]},
     ['{"a":1,"b":"x"}', '{"a":1,"c":true}'], ['{"a":1}', '{"b":"x"}', '{"a":1,"b":1}']),
    ({"allOf": [{"type": "object", "properties": {"a": I}, "required": ["a"]}, {"type": "object", "properties": {"b": S}, "required": ["b"]}]},
     ['{"a":1,"b":"x"}'], ['{"a":1}', '{"b":"x"}', '{"a":"1","b":"x"}']),
    ({"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}]}, ["3", "4", "5"], ["2", "6", '"3"']),
    ({"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}]}, ["2", "3"], ["1", "4"]),
    ({"$defs": {"node": obj({"v": I, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}})}, "$ref": "#/$defs/node"},
     ['{"v":1,"next":null}', '{"v":1,"next":{"v":2,"next":null}}'], ['{"v":1}', '{"v":1,"next":{"v":2}}']),
    (obj({"name": S, "children": {"type": "array", "items": {"$ref": "#"}}}),
     ['{"name":"a","children":[]}', '{"name":"a","children":[{"name":"b","children":[]},{"name":"c","children":[]}]}'], ['{"name":"a","children":[1]}']),
    ({"definitions": {"a/b~c": I}, "type": "array", "items": {"$ref": "#/definitions/a~1b~0c"}}, ["[]", "[1]"], ['["x"]']),
    ({"$defs": {"base": {"type": "object", "properties": {"id": I}, "required": ["id"]}}, "allOf": [{"$ref": "#/$defs/base"}], "properties": {"n": S}, "required": ["n"]},
     ['{"n":"x","id":1}', '{"id":1,"n":"x"}'][:1], ['{"n":"x"}', '{"id":1}']),
    ({"$defs": {"s": {"type": "string"}}, "$ref": "#/$defs/s", "maxLength": 2}, ['"ab"'], ['"abc"', "1"]),
    ({"$defs": {"expr": {"anyOf": [N, obj({"op": {"enum": ["+", "*"]}, "args": {"type": "array", "items": {"$ref": "#/$defs/expr"}, "minItems": 2, "maxItems": 2}})]}}, "$ref": "#/$defs/expr"},
     ["1", '{"op":"+","args":[1,{"op":"*","args":[2,3.5]}]}'], ['{"op":"+","args":[1]}', '{"op":"-","args":[1,2]}']),
    ({"type": "object", "properties": {"a": {"type": "string", "nullable": True}}, "required": ["a"]}, ['{"a":"x"}'], ["{}", '{"a":1}']),
    (obj({"address": obj({"street": S, "zip": {"type": "string", "pattern": "^\\d{5}$"}}), "phones": {"type": "array", "items": obj({"kind": {"enum": ["home", "work"]}, "no": S}), "maxItems": 2}}),
     ['{"address":{"street":"x","zip":"12345"},"phones":[{"kind":"home","no":"1"}]}', '{"address": {"street": "", "zip": "00000"}, "phones": []}'],
     ['{"address":{"street":"x","zip":"1234"},"phones":[]}']),
    ({"title": "Person", "description": "pydantic's", "$defs": {"Color": {"enum": ["red", "blue"], "title": "Color", "type": "string"}},
      "properties": {"favourite": {"$ref": "#/$defs/Color"}, "others": {"anyOf": [{"items": {"$ref": "#/$defs/Color"}, "type": "array"}, {"type": "null"}], "default": None, "title": "Others"}},
      "required": ["favourite"], "type": "object"},
     ['{"favourite":"red"}', '{"favourite":"red","others":null}', '{"favourite":"blue","others":["red","blue"]}'], ['{"favourite":"green"}', '{"others":null}']),
]

rnd = random.Random(11)
NASTY = ["", "a", "name", "x y", "\"q\"", "back\\slash", "tab\t", "line\nfeed", "é", "漢字", "🦊", "e\u0301", "\u0001", "\u007f", "</tag>", "{}", "'", "null", "0", "a\u2028b", "ключ"]


def random_schema(depth):
    kind = rnd.choice(["string", "integer", "number", "boolean", "null", "enum", "anyOf", "pattern"] + ["object", "array"] * (3 if depth > 0 else 0))
    if kind == "string":
        schema = {"type": "string"}
        if rnd.random() < 0.4:
            schema["minLength"] = rnd.randint(0, 4)
        if rnd.random() < 0.5:
            schema["maxLength"] = rnd.randint(4, 12)
        return schema
    if kind == "integer":
        low = rnd.randint(-1200, 1200)
        schema = {"type": "integer"}
        if rnd.random() < 0.6:
            schema[rnd.choice(["minimum", "exclusiveMinimum"])] = low
        if rnd.random() < 0.6:
            schema[rnd.choice(["maximum", "exclusiveMaximum"])] = low + rnd.randint(2, 3000)
        return schema
    if kind == "number":
        low = rnd.randint(-3000, 3000) / rnd.choice([1, 4, 8, 10, 100])
        schema = {"type": "number"}
        if rnd.random() < 0.7:
            schema[rnd.choice(["minimum", "exclusiveMinimum"])] = low
        if rnd.random() < 0.7:
            schema[rnd.choice(["maximum", "exclusiveMaximum"])] = low + rnd.choice([0.5, 1, 7.25, 0.1, 300])
        return schema
    if kind in ("boolean", "null"):
        return {"type": kind}
    if kind == "enum":
        return {"enum": rnd.sample(NASTY + [1, -5, 2.5, None], rnd.randint(1, 5))}
    if kind == "pattern":
        return {"type": "string", "pattern": rnd.choice(["^[a-f0-9]{4}$", "^(yes|no)!?$", "^\\w+\\.\\w{2,3}$", "[xyz]", "^[^a]*$", "^é+🦊?$", "^\"[a-z]*\"$", "^a.c$"])}
    if kind == "anyOf":
        return {"anyOf": [random_schema(max(0, depth - 1)) for _ in range(rnd.randint(2, 3))]}
    if kind == "array":
        if rnd.random() < 0.25:
            items = [random_schema(depth - 1) for _ in range(rnd.randint(1, 3))]
            return {"type": "array", "prefixItems": items, "items": False, "minItems": rnd.randint(0, len(items))}
        schema = {"type": "array", "items": random_schema(depth - 1)}
        if rnd.random() < 0.5:
            schema["minItems"] = rnd.randint(0, 3)
        if rnd.random() < 0.5:
            schema["maxItems"] = rnd.randint(3, 5)
        return schema
    names = rnd.sample(NASTY, rnd.randint(0, 5))
    schema = {"type": "object", "properties": {name: random_schema(depth - 1) for name in names}}
    schema["required"] = [name for name in names if rnd.random() < 0.6]
    schema["additionalProperties"] = rnd.choice([False, False, True, {"type": "integer"}])
    return schema


def random_value(schema):
    """A value for a schema of random_schema, keys in the schema's order. May be wrong; jsonschema judges."""
    if "enum" in schema:
        return rnd.choice(schema["enum"])
    if "anyOf" in schema:
        return random_value(rnd.choice(schema["anyOf"]))
    kind = schema["type"]
    if kind == "string":
        if "pattern" in schema:
            return rnd.choice(["0af9", "yes", "no!", "ab.cde", "x", "", "bcd", "é🦊", '"ab"', "abc", "a漢c"])
        length = rnd.randint(schema.get("minLength", 0), schema.get("maxLength", 12))
        return "".join(rnd.choice("ab \"\\\n漢é🦊/{") for _ in range(length))
    if kind == "integer":
        low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum", schema.get("exclusiveMaximum"))
        low = low if low is not None else (high if high is not None else 0) - 500
        return rnd.randint(low, high if high is not None else low + 1000)
    if kind == "number":
        low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum", schema.get("exclusiveMaximum"))
        low = low if low is not None else (high if high is not None else 0) - 500
        return round(rnd.uniform(low, high if high is not None else low + 1000), rnd.randint(0, 3))
    if kind == "boolean":
        return rnd.random() < 0.5
    if kind == "null":
        return None
    if kind == "array":
        if "prefixItems" in schema:
            return [random_value(s) for s in schema["prefixItems"]][: rnd.randint(schema["minItems"], len(schema["prefixItems"]))]
        return [random_value(schema["items"]) for _ in range(rnd.randint(schema.get("minItems", 0), schema.get("maxItems", 5)))]
    value = {name: random_value(s) for name, s in schema["properties"].items() if name in schema["required"] or rnd.random() < 0.5}
    if schema["additionalProperties"] is not False and rnd.random() < 0.5:
        value["further"] = 7
    return value


def mutated(value):
    """The value with one thing changed."""
    if isinstance(value, list) and value and rnd.random() < 0.7:
        i = rnd.randrange(len(value))
        return rnd.choice([value[:i] + value[i + 1:], value + [value[i]], value[:i] + [mutated(value[i])] + value[i + 1:]])
    if isinstance(value, dict) and value and rnd.random() < 0.8:
        key = rnd.choice(list(value))
        kind = rnd.randrange(3)
        if kind == 0:
            return {k: v for k, v in value.items() if k != key}
        if kind == 1:
            return {**value, "unknown": 1}
        return {k: mutated(v) if k == key else v for k, v in value.items()}
    if isinstance(value, bool) or value is None:
        return rnd.choice([0, "x", [], not value])
    if isinstance(value, (int, float)):
        return rnd.choice([value + 1000, value - 1000, value + 0.5, -value, str(value), None])
    if isinstance(value, str):
        return rnd.choice([value + "x" * 12, value[:-1], value[::-1], 5, None, value + "é"])
    return rnd.choice([None, 1, "x", [value]])


def main():
    entries = []
    checker = Draft202012Validator.FORMAT_CHECKER
    for schema, derive, refuse in HAND:
        validator = Draft202012Validator(schema, format_checker=checker)
        for text in derive:
            assert validator.is_valid(json.loads(text)), (schema, text)
        kept = []
        for text in refuse:
            try:
                valid = validator.is_valid(json.loads(text))
            except ValueError:
                valid = False
            if valid and "NaN" != text and r"\n" not in text:
                print("valid, so not refused on jsonschema's word:", json.dumps(schema)[:80], text)
            kept.append(text)
        entries.append({"schema": schema, "derive": derive, "refuse": kept})
    while len(entries) < 220:
        schema = random_schema(3)
        if len(json.dumps(schema)) > 1500:
            continue
        validator = Draft202012Validator(schema)
        entry = {"schema": schema, "derive": [], "refuse": []}
        for _ in range(8):
            value = random_value(schema)
            text = json.dumps(value, ensure_ascii=False, separators=rnd.choice([(",", ":"), (", ", ": ")]))
            if validator.is_valid(value) and "e-" not in text:
                if text not in entry["derive"]:
                    entry["derive"].append(text)
            other = mutated(value)
            if not validator.is_valid(other):
                entry["refuse"].append(json.dumps(other, ensure_ascii=False, separators=(",", ":")))
        entry["derive"] = [t for t in entry["derive"] if '":-0.0' not in t][:4]
        entry["refuse"] = sorted(set(entry["refuse"]))[:4]
        entries.append(entry)
    path = pathlib.Path(__file__).parent.parent / "data" / "grammar" / "schemas.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries) + "\n]\n")
    print(len(entries), "schemas,", sum(len(e["derive"]) for e in entries), "texts to derive,", sum(len(e["refuse"]) for e in entries), "to refuse")


main()
