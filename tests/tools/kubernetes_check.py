#!/usr/bin/env python3
"""Checks what is sent to Kubernetes.

    kubernetes_check.py schemas FILE      each document against the strict schemas of every version
    kubernetes_check.py sense FILE        what no schema sees: names, ports, probes, times, rights fit together
    kubernetes_check.py same FILE FILE    both hold the same, but for the hash in a ConfigMap's name
    kubernetes_check.py config FILE       prints the convoyd.json of the ConfigMap
    kubernetes_check.py probes FILE       prints the paths that are probed
    kubernetes_check.py metrics FILE      prints the metrics of pods that the autoscaler asks for
    kubernetes_check.py adapter FILE      prints prometheus-adapter's rules as recording rules, for promtool

FILE is a stream of rendered YAML documents. Needs kubernetes-validate from PyPI."""

import json
import re
import sys

import kubernetes_validate
import yaml


def schemas(documents):
    versions = sorted(set(kubernetes_validate.utils.all_versions()))
    for document in documents:
        for version in versions:
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                path = ".".join(str(part) for part in error.path)
                sys.exit(f"Kubernetes {version}: {document['kind']}: {path}: {error.message}")
    print(f"{len(documents)} documents, {len(versions)} versions of Kubernetes")


def one(documents, kind):
    (found,) = (document for document in documents if document["kind"] == kind)
    return found


def convoyd_json(documents):
    return one(documents, "ConfigMap")["data"]["convoyd.json"]


def probes(container):
    return {kind: container[kind]["httpGet"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}


def locked_up(container, pod):
    rights = pod.get("securityContext", {}) | container["securityContext"]
    assert rights["runAsNonRoot"] is True and rights["runAsUser"] > 0
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert rights["seccompProfile"] == {"type": "RuntimeDefault"}


def sense(documents):
    deployment, service = one(documents, "Deployment"), one(documents, "Service")
    autoscaler, budget = one(documents, "HorizontalPodAutoscaler"), one(documents, "PodDisruptionBudget")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    # The tags that packaging/oci/build.sh gives.
    tag = "cuda" if "nvidia.com/gpu" in container["resources"]["limits"] else "cpu"
    assert container["image"].endswith(f"/convoyd:{tag}"), container["image"]
    config = json.loads(convoyd_json(documents))
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for selector in (
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        budget["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items(), f"{selector} finds no pod labelled {labels}"
    target = autoscaler["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", deployment["metadata"]["name"])
    assert "replicas" not in deployment["spec"], "every apply would undo what the autoscaler did"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert config["listen"] == f":{ports['http']}", f"{config['listen']}: the pod's port is {ports}"
    assert config["health_listen"] == f":{ports['health']}", f"{config['health_listen']}: the pod's port is {ports}"
    assert service["spec"]["ports"][0]["targetPort"] == "http"
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(ports["health"])
    assert {probe["port"] for probe in probes(container).values()} == {"health"}
    targets = {
        metric["pods"]["metric"]["name"]: float(metric["pods"]["target"]["averageValue"])
        for metric in autoscaler["spec"]["metrics"]
        if metric["type"] == "Pods"
    }
    refuses = 0.75 * config.get("timeout_ms", 10000) / 1000
    assert 2 * targets["convoyd_queue_seconds_p99"] <= refuses, f"{targets}: pods refuse at {refuses} s"
    most = config.get("batching", {}).get("max_queue", 4096)
    assert 2 * targets["convoyd_queue_images"] <= most, f"{targets}: pods refuse at {most} images"
    grace, needed = pod["terminationGracePeriodSeconds"], config["drain_ms"] + config["drain_timeout_ms"]
    assert 1000 * grace >= needed + 2000, f"SIGKILL after {grace} s, but a drain may take {needed} ms"
    notice = container["readinessProbe"]["periodSeconds"] * container["readinessProbe"]["failureThreshold"]
    assert config["drain_ms"] > 1000 * notice, f"drain_ms is over before readiness is noticed, {notice} s"
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert set(mounts.values()) == {volume["name"] for volume in pod["volumes"]}
    assert config["models"] in mounts and container["args"][1] == "/etc/convoyd/convoyd.json"
    assert config.get("cache_dir") in {None} | mounts.keys(), "cache_dir is on the read-only file system"
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == mounts["/etc/convoyd"])
    assert volume["configMap"]["name"] == one(documents, "ConfigMap")["metadata"]["name"]
    threads = {variable["name"]: variable["value"] for variable in container["env"]}["OMP_NUM_THREADS"]
    assert threads == container["resources"]["requests"]["cpu"] == str(config["http"]["threads"])
    assert ("nvidia.com/gpu" in container["resources"]["limits"]) == (config.get("backend") == "cuda")
    locked_up(container, pod)


def unhashed(documents):
    text = yaml.safe_dump_all(documents, sort_keys=True)
    documents = yaml.safe_load_all(re.sub(r"name: convoyd-[a-z0-9]{10}$", "name: convoyd", text, flags=re.M))
    found = {document["kind"]: document for document in documents}
    for container in found["Deployment"]["spec"]["template"]["spec"]["containers"]:
        container["env"].sort(key=str)  # order means nothing in these
        container["volumeMounts"].sort(key=str)
    found["Deployment"]["spec"]["template"]["spec"]["volumes"].sort(key=str)
    return found


def pod_metrics(documents):
    metrics = one(documents, "HorizontalPodAutoscaler")["spec"]["metrics"]
    return [metric["pods"]["metric"]["name"] for metric in metrics if metric["type"] == "Pods"]


def adapter_rules(values):
    """{the metric's new name: PromQL} as prometheus-adapter would ask it."""
    rules = {}
    for rule in values["rules"]["custom"]:
        series, matchers = re.fullmatch(r"(\w+)\{(.*)\}", rule["seriesQuery"]).groups()
        assert rule["name"]["matches"] == series, f"{rule['name']} is not of {series}"
        query = rule["metricsQuery"].replace("<<.Series>>", series).replace("<<.LabelMatchers>>", matchers)
        rules[rule["name"]["as"]] = query.replace("<<.GroupBy>>", "pod")
    return rules


def main():
    files = [list(yaml.safe_load_all(open(path, encoding="utf-8"))) for path in sys.argv[2:]]
    if sys.argv[1] == "schemas":
        schemas(files[0])
    elif sys.argv[1] == "sense":
        sense(files[0])
    elif sys.argv[1] == "same":
        assert unhashed(files[0]) == unhashed(files[1]), "\n".join(map(str, (unhashed(f) for f in files)))
    elif sys.argv[1] == "config":
        print(convoyd_json(files[0]))
    elif sys.argv[1] == "metrics":
        print("\n".join(pod_metrics(files[0])))
    elif sys.argv[1] == "adapter":
        rules = [{"record": name, "expr": query} for name, query in adapter_rules(files[0][0]).items()]
        print(json.dumps({"groups": [{"name": "adapter", "rules": rules}]}, indent=1))
    else:
        (container,) = one(files[0], "Deployment")["spec"]["template"]["spec"]["containers"]
        print("\n".join(sorted({probe["path"] for probe in probes(container).values()})))


if __name__ == "__main__":
    main()
