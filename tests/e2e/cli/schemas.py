#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Validates JSON documents against the schemas in docs/schemas: schemas.py FOLDER SCHEMA FILE...

Knows the words of JSON Schema that those use. Stricter than they are: a key that a schema does not name is an error here, so that no
key is published without a word about it.
"""
import json
import sys

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "number": (int, float), "integer": int}
KNOWN = {"$schema", "$id", "$defs", "title", "description", "type", "required", "properties", "additionalProperties", "items", "minItems", "maxItems", "const",
         "enum"}
REFERENCE = "#/$defs/"  # the only kind of "$ref": to a part of the same schema
defined = {}


def is_type(value, name):
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def resolved(schema):
    """What a schema is: itself, or the part of the document that it refers to."""
    name = schema.get("$ref")
    if name is None:
        return schema
    assert set(schema) == {"$ref"} and name.startswith(REFERENCE), schema
    return defined[name[len(REFERENCE):]]


def check(value, schema, place, wrong):
    schema = resolved(schema)
    assert set(schema) <= KNOWN, (place, set(schema) - KNOWN)
    names = schema.get("type", list(TYPES))
    if not any(is_type(value, name) for name in ([names] if isinstance(names, str) else names)):
        wrong.append(f"{place}: {json.dumps(value)[:60]} is no {names}")
    elif "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        wrong.append(f"{place}: {json.dumps(value)[:60]}")
    elif isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            wrong.append(f"{place}: {len(value)} elements")
        for number, element in enumerate(value):
            check(element, schema.get("items", {}), f"{place}/{number}", wrong)
    elif isinstance(value, dict):
        wrong += [f"{place}: {key} is missing" for key in schema.get("required", []) if key not in value]
        for key, member in value.items():
            named = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            if named is None and ("properties" in schema):
                wrong.append(f"{place}/{key} is not in the schema")
            else:
                check(member, named or {}, f"{place}/{key}", wrong)


def documents_of(text):
    """A file holds one document, or several behind each other: lines of messages, statements of SQL."""
    documents, at = [], 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        document, at = json.JSONDecoder().raw_decode(text, at)
        documents.append(document)
    return documents


def main():
    folder, name = sys.argv[1:3]
    schema, wrong = json.load(open(f"{folder}/{name}.json")), []
    defined.update(schema.get("$defs", {}))
    for path in sys.argv[3:]:
        documents = documents_of(open(path).read())
        if not documents:
            wrong.append(f"{path}: empty")
        for document in documents:
            check(document, schema, path, wrong)
    if wrong:
        print("\n".join(wrong[:20]))
    sys.exit(bool(wrong))


main()
