#!/usr/bin/env python3
"""Checks documents of KServe against the models of KServe's own SDK (the tables in the package kserve, which are
generated from its OpenAPI description): names, types, required members. The containers inside of them go through
Kubernetes' schemas as a Pod. This is not the CRD: its defaults and webhooks are not tried.

    kserve_check.py FILE...

Needs kubernetes-validate, and kserve installed without its dependencies: its files are read, not imported."""

import ast
import importlib.metadata
import re
import sys

import kubernetes_validate
import yaml

from kubernetes_check import locked_up, probes

TYPES = {"str": str, "int": int, "bool": bool}


def model(name):
    """({member: type}, required members) of a class, or None where the SDK has none of that name."""
    path = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    for file in importlib.metadata.distribution("kserve").files:
        if str(file) == f"kserve/models/{path}.py":
            text = file.locate().read_text(encoding="utf-8")
            break
    else:
        return None
    types = ast.literal_eval(re.search(r"openapi_types = (\{.*?\})", text, re.S)[1])
    names = ast.literal_eval(re.search(r"attribute_map = (\{.*?\})", text, re.S)[1])
    required = re.findall(r"Invalid value for `(\w+)`, must not be `None`", text)
    return {names[key]: kind for key, kind in types.items()}, {names[key] for key in required}


def check(value, kind, where):
    if match := re.fullmatch(r"list\[(.*)\]", kind):
        assert isinstance(value, list), f"{where}: not a list"
        for i, item in enumerate(value):
            check(item, match[1], f"{where}[{i}]")
    elif match := re.fullmatch(r"dict\(str, (.*)\)", kind):
        assert isinstance(value, dict), f"{where}: not a map"
        for key, item in value.items():
            check(item, match[1], f"{where}.{key}")
    elif kind in TYPES:
        assert type(value) is TYPES[kind], f"{where}: {value!r} is no {kind}"
    elif kind == "V1Container":
        pod_of([value])
    elif kind == "V1ObjectMeta":
        assert re.fullmatch(r"[a-z][-a-z0-9]*", value["name"]), f"{where}: {value}"
    else:
        assert (found := model(kind)), f"{where}: {kind} is not in KServe's SDK, so it cannot be checked"
        types, required = found
        assert value.keys() <= types.keys(), f"{where}: {kind} has no {sorted(value.keys() - types.keys())}"
        assert required <= value.keys(), f"{where}: {kind} wants {sorted(required - value.keys())}"
        for key, item in value.items():
            check(item, types[key], f"{where}.{key}")


def pod_of(containers):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": containers}}
    kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)


def main():
    documents = {}
    for path in sys.argv[1:]:
        document = yaml.safe_load(open(path, encoding="utf-8"))
        group, version = document["apiVersion"].split("/")
        assert group == "serving.kserve.io", f"{path}: {group}"
        check(document, version[0].upper() + version[1:] + document["kind"], document["kind"])
        documents[document["kind"]] = document
    runtime = documents["ServingRuntime"]
    service = documents["InferenceService"]["spec"]["predictor"]["model"]
    assert service["runtime"] == runtime["metadata"]["name"]
    assert service["protocolVersion"] in runtime["spec"]["protocolVersions"]
    formats = [(f["name"], f["version"]) for f in runtime["spec"]["supportedModelFormats"]]
    assert (service["modelFormat"]["name"], service["modelFormat"]["version"]) in formats
    (container,) = runtime["spec"]["containers"]
    assert container["name"] == "kserve-container"  # the one that KServe mounts the model into
    (port,) = (p["containerPort"] for p in container["ports"])
    assert container["args"] == ["--models", "/mnt/models", "--listen", f":{port}"]
    assert {probe["port"] for probe in probes(container).values()} == {port}
    locked_up(container, {})
    print(f"{', '.join(documents)}: as kserve {importlib.metadata.version('kserve')} has them")


if __name__ == "__main__":
    main()
