#!/usr/bin/env python3
"""Prints what "kubectl kustomize FOLDER" would, for the little of it that config/kubernetes uses: resources,
patches, images, and a configMapGenerator from files, without the hash in its name. Debian has no kustomize; where
kubectl is there the test compares. Needs python3-yaml."""

import pathlib
import re
import sys

import yaml


def merged(base, patch):
    """A strategic merge: maps by key; lists of maps with a name (or a mountPath) by that, new ones first."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return {
            key: merged(base[key], patch[key]) if key in base and key in patch else value
            for key, value in (base | patch).items()
        }
    if isinstance(base, list) and isinstance(patch, list) and isinstance(patch[0], dict):
        key = "mountPath" if "mountPath" in patch[0] else "name"
        old = {item[key]: item for item in base}
        new = {item[key]: merged(old[item[key]], item) if item[key] in old else item for item in patch}
        changed = [new.get(item[key], item) for item in base]
        return [item for name, item in new.items() if name not in old] + changed
    return patch


def containers(resource):
    return resource.get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])


def render(folder):
    """{(kind, name): resource}"""
    with open(folder / "kustomization.yaml", encoding="utf-8") as file:
        wanted = yaml.safe_load(file)
    known = {"apiVersion", "kind", "resources", "patches", "configMapGenerator", "images"}
    assert wanted.keys() <= known, f"{folder}: this tool does not know {wanted.keys() - known}"
    resources = {}
    for name in wanted["resources"]:
        path = folder / name
        if path.is_dir():
            resources |= render(path)
            continue
        for resource in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            resources[resource["kind"], resource["metadata"]["name"]] = resource
    for patch in wanted.get("patches", []):
        change = yaml.safe_load((folder / patch["path"]).read_text(encoding="utf-8"))
        key = change["kind"], change["metadata"]["name"]
        resources[key] = merged(resources[key], change)
    for generator in wanted.get("configMapGenerator", []):
        data = {name: (folder / name).read_text(encoding="utf-8") for name in generator["files"]}
        key = "ConfigMap", generator["name"]
        assert (key in resources) == (generator.get("behavior") == "merge"), f"{folder}: {key}"
        old = resources.get(key, {"data": {}})["data"]
        metadata = {"name": generator["name"]}
        resources[key] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": old | data}
    for image in wanted.get("images", []):
        for resource in resources.values():
            for container in containers(resource):
                if re.sub(":[^:/]*$", "", container["image"]) == image["name"]:
                    container["image"] = f"{image['newName']}:{image['newTag']}"
    return resources


def main():
    yaml.safe_dump_all(render(pathlib.Path(sys.argv[1])).values(), sys.stdout, sort_keys=True)


if __name__ == "__main__":
    main()
