#!/usr/bin/env python3
"""Judges random answers of the grammar tests by Python's `jsonschema`.

Usage: COTERIE_SAMPLES=/tmp/samples build/bin/test_grammar && tests/grammar/check_samples.py /tmp/samples
"""
import json
import pathlib
import sys

from jsonschema import Draft202012Validator

data = pathlib.Path(__file__).parent.parent / "data" / "grammar" / "schemas.json"
schemas = [entry["schema"] for entry in json.loads(data.read_text(encoding="utf-8"))]
validators = [Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER) for schema in schemas]
count = wrong = 0
for line in open(sys.argv[1], encoding="utf-8"):
    sample = json.loads(line)
    count += 1
    try:
        value = json.loads(sample["text"])
        errors = [error.message for error in validators[sample["schema"]].iter_errors(value)]
    except ValueError as error:
        errors = [str(error)]
    # OpenAPI's nullable isn't JSON Schema's; multiples of fractions are a matter of rounding.
    if errors and "nullable" not in json.dumps(schemas[sample["schema"]]):
        wrong += 1
        print(json.dumps(schemas[sample["schema"]]), "\n ", sample["text"], "\n ", errors)
print(count, "answers,", wrong, "invalid")
sys.exit(1 if wrong or not count else 0)
