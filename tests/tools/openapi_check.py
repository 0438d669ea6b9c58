#!/usr/bin/env python3
"""Checks convoyd's OpenAPI document where schemathesis does not look.

    openapi_check.py document FILE        is it OpenAPI 3.1, every part of it used, every example as its schema says?
    openapi_check.py routes FILE ROUTES   are its paths and methods those of the route table in server/api/routes.c?
    openapi_check.py answered URL BEFORE  since the file BEFORE was /metrics, did every route that can answer 200, and none 5xx?

The first needs openapi-spec-validator from PyPI."""

import json
import re
import sys
import urllib.request


def parts(node, path=()):
    """Every object in the document with its path."""
    if isinstance(node, dict):
        yield path, node
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        # What an example holds is no part of the document.
        if key not in ("example", "examples", "value") or path[-1:] == ("properties",):
            yield from parts(child, (*path, key))


def resolve(document, node):
    while "$ref" in node:
        target = document
        for key in node["$ref"].removeprefix("#/").split("/"):
            target = target[key]
        node = target
    return node


def examples(node):
    """(name, value) of each example beside a schema."""
    if "example" in node:
        yield "example", node["example"]
    for name, example in node.get("examples", {}).items():
        yield name, example["value"]


def check_document(document):
    from jsonschema import Draft202012Validator
    from openapi_spec_validator import OpenAPIV31SpecValidator

    wrong = [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"
             for error in OpenAPIV31SpecValidator(document).iter_errors()]
    used = {node["$ref"] for _, node in parts(document) if "$ref" in node}
    used |= {f"#/components/securitySchemes/{name}" for _, node in parts(document) for need in node.get("security", []) for name in need}
    there = {f"#/components/{kind}/{name}" for kind, named in document["components"].items() for name in named}
    wrong += [f"nothing refers to {reference}" for reference in sorted(there - used)]
    checked = 0
    for path, node in parts(document):
        if "schema" not in node:
            continue
        schema = {**node["schema"], "components": document["components"]}
        for name, value in examples(node):
            checked += 1
            wrong += [f"{'/'.join(map(str, path))}, {name}: {error.message[:300]}"
                      for error in Draft202012Validator(schema).iter_errors(value)]
    operations = [node for _, node in parts(document["paths"]) if "operationId" in node]
    for node in operations:
        wrong += [f"{node['operationId']}: says nothing of {part}" for part in ("summary", "tags", "responses") if part not in node]
        for status, answer in node["responses"].items():
            answer = resolve(document, answer)
            # A 304 has no body, and two statuses are the HTTP library's.
            if status not in ("304", "414", "431") and not all("schema" in media for media in answer.get("content", {"": {}}).values()):
                wrong.append(f"{node['operationId']}: {status} has no schema")
    if not operations or not checked:
        wrong.append("there is no operation, or no example")
    print(f"{len(operations)} operations, {checked} examples")
    return wrong


def check_routes(document, table):
    rows = re.findall(r'\{CONVOY_(\w+),\s*"([^"]+)"', table)
    routes = {(method.lower(), path) for methods, path in rows for method in methods.split("_OR_")}
    if not rows or len(rows) != len(re.findall(r"\{\s*CONVOY_", table)):
        return ["the route table does not look as it did: this program cannot read it"]
    described = {(method, path) for path, item in document["paths"].items() for method in item if method != "parameters"}
    print(f"{len(routes)} routes")
    return ([f"{method.upper()} {path} is served and not described" for method, path in sorted(routes - described)] +
            [f"{method.upper()} {path} is described and not served" for method, path in sorted(described - routes)])


def answers(metrics):
    """{route: {status: how many}}, whatever the model."""
    counts = {}
    for route, status, count in re.findall(r'^convoyd_requests_total\{model="[^"]*",route="([^"]*)",status="(\d+)"\} (\d+)', metrics, re.M):
        statuses = counts.setdefault(route, {})
        statuses[int(status)] = statuses.get(int(status), 0) + int(count)
    return counts


def check_answered(url, before):
    with urllib.request.urlopen(url + "/metrics", timeout=10) as response:
        now = answers(response.read().decode())
    new = {route: {status: count - before.get(route, {}).get(status, 0) for status, count in statuses.items()}
           for route, statuses in now.items()}
    with urllib.request.urlopen(url + "/v2/openapi.json", timeout=10) as response:
        paths = json.load(response)["paths"]
    wrong = []
    for path, item in paths.items():
        statuses = {status: count for status, count in new.get(path, {}).items() if count > 0}
        print(f"{path}: {', '.join(f'{count} x {status}' for status, count in sorted(statuses.items()))}")
        succeeds = any("200" in operation["responses"] for method, operation in item.items() if method != "parameters")
        if succeeds and 200 not in statuses:
            wrong.append(f"{path} never answered 200")
        wrong += [f"{path} answered {status}" for status in statuses if status >= 500]
    return wrong


def main():
    what, source, *rest = sys.argv[1:]
    if what == "answered":
        with open(rest[0], encoding="utf-8") as file:
            wrong = check_answered(source, answers(file.read()))
    else:
        with open(source, encoding="utf-8") as file:
            document = json.load(file)
        if what == "document":
            wrong = check_document(document)
        else:
            with open(rest[0], encoding="utf-8") as file:
                wrong = check_routes(document, file.read())
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
