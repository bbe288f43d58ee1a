#!/usr/bin/env python3
"""check_schema.py SCHEMA DOCUMENT...: checks the schema, and the documents against it, with Debian's
python3-jsonschema. Each line of a .jsonl is a document. The exit status is 0 without violations, else 1,
with a line for each violation."""
import json
import pathlib
import sys

import jsonschema

SAYS_NOTHING = {"$schema", "$id", "$defs", "$comment", "title", "description"}


def refuse(what):
    raise ValueError(what)


def members(pairs):
    """Refuses repeated names. json keeps the last member of a name, and another reader may keep the first."""
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        refuse("stand there twice: " + ", ".join(sorted({n for n in names if names.count(n) > 1})))
    return made


def parse(text):
    return json.loads(text, object_pairs_hook=members, parse_constant=lambda word: refuse(f"{word} is not JSON"))


def unknown_words(schema, known, path=""):
    """Finds unknown keywords. JSON Schema ignores them, so that a rule with a misspelt keyword would not be
    checked."""
    for word, value in schema.items():
        here = f"{path}/{word}"
        if word not in known and word not in SAYS_NOTHING:
            yield f"{here}: no keyword of JSON Schema"
        if word in ("properties", "$defs"):
            for name, rule in value.items():
                yield from unknown_words(rule, known, f"{here}/{name}")
        elif isinstance(value, dict) and word != "const":
            yield from unknown_words(value, known, here)
        elif isinstance(value, list) and word != "enum":
            for i, rule in enumerate(value):
                if isinstance(rule, dict):
                    yield from unknown_words(rule, known, f"{here}/{i}")


def violations(validator, text):
    try:
        document = parse(text)
    except ValueError as error:
        yield f"no document: {error}"
        return
    for error in sorted(validator.iter_errors(document), key=lambda e: list(map(str, e.absolute_path))):
        # The message starts with the value, which may be long, and ends with the problem.
        text = error.message if len(error.message) <= 300 else f"{error.message[:150]} ... {error.message[-150:]}"
        yield "/" + "/".join(map(str, error.absolute_path)) + f": {text}"


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    schema = parse(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    kind = jsonschema.validators.validator_for(schema, default=None) or refuse("the schema says no $schema that is known")
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        sys.exit(f"{sys.argv[1]}#/{'/'.join(map(str, error.absolute_path))}: no schema: {error.message}")
    found = [f"{sys.argv[1]}#{what}" for what in unknown_words(schema, kind.VALIDATORS)]
    validator = kind(schema)
    for name in sys.argv[2:]:
        text = pathlib.Path(name).read_text(encoding="utf-8")
        if name.endswith(".jsonl"):
            lines = [(f"{name}:{i}", line) for i, line in enumerate(text.split("\n"), 1) if line]
        else:
            lines = [(name, text)]
        found += [f"{where}: {what}" for where, line in lines for what in violations(validator, line)]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


main()
