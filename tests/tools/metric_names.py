#!/usr/bin/env python3
"""Every metric and label that the alert rules and the dashboard speak of must exist.

    metric_names.py METRICS DOCUMENT RULES DASHBOARD

METRICS is the /metrics page of a running convoyd, DOCUMENT a Markdown page with a table of all metrics (lines
"| `name` | type | `label`, ... | meaning |"), which also knows what only a GPU brings, and one of all alerts
("| `name` | severity | ..."). Page, tables and rules must agree. A misspelt name parses well and never fires: this
is what finds it.

Needs python3-yaml.
"""

import json
import re
import sys

import yaml

from dashboard import expressions

SCRAPED = {"job", "instance"}  # what Prometheus itself adds
PROMETHEUS = {"up": SCRAPED, "ALERTS": SCRAPED | {"alertname", "alertstate", "severity"}}
KEYWORDS = set("and or unless by without on ignoring group_left group_right bool offset inf nan".split())
LISTS = r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)"
IDENTIFIER = r"[A-Za-z_:][A-Za-z0-9_:]*"


def exposed(text):
    """{name: labels} of a page; a histogram's three names each."""
    found = {}
    for line in text.splitlines():
        if match := re.match(rf"({IDENTIFIER})(?:\{{(.*)\}})? \S+$", line):
            labels = re.findall(rf'({IDENTIFIER})="(?:[^"\\]|\\.)*"', match[2] or "")
            found.setdefault(match[1], set()).update(labels)
    return found


def documented(text):
    found = {}
    for name, kind, labels in re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram) \| (.*?) \|", text, re.M):
        labels = set(re.findall(r"`(\w+)`", labels))
        if kind == "histogram":
            found |= {name + "_bucket": labels | {"le"}, name + "_sum": labels, name + "_count": labels}
        else:
            found[name] = labels
    return found


class Checker:
    def __init__(self, known):
        self.known = known  # {name: labels without SCRAPED}
        self.labels = set().union(*known.values()) | SCRAPED
        self.wrong = 0

    def complain(self, where, what):
        print(f"{where}: {what}")
        self.wrong += 1

    def expression(self, where, text):
        """Looks at each name; returns them."""
        text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
        for name, selector in re.findall(rf"({IDENTIFIER})\s*\{{([^}}]*)\}}", text):
            for label in re.findall(rf"({IDENTIFIER})\s*(?:=|!)", selector):
                if label not in self.known.get(name, self.labels) | SCRAPED:
                    self.complain(where, f"{name} has no label {label}")
        for labels in re.findall(LISTS, text):
            self.are_labels(where, re.findall(IDENTIFIER, labels))
        text = re.sub(LISTS, " ", re.sub(r"\{[^}]*\}|\[[^]]*\]", " ", text))
        text = re.sub(r"\b[0-9][0-9A-Za-z.]*", " ", text)
        names = {name for name, call in re.findall(rf"({IDENTIFIER})(\s*\()?", text) if not call} - KEYWORDS
        for name in names - self.known.keys():
            self.complain(where, f"there is no metric {name}")
        return names

    def are_labels(self, where, labels):
        for label in set(labels) - self.labels:
            self.complain(where, f"there is no label {label}")


def main():
    page, document, rules, dashboard = (open(path, encoding="utf-8").read() for path in sys.argv[1:5])
    known, table = exposed(page), documented(document)
    checker = Checker(table | PROMETHEUS)
    for name, labels in known.items():
        if table.get(name) != labels:
            said = table.get(name)
            checker.complain(sys.argv[2], f"{name} has labels {sorted(labels)}, the table says {said}")
    only_gpu = {"convoyd_cuda_calls_total", "convoyd_device_memory_bytes"} | {n for n in table if n.startswith("convoyd_gpu_")}
    faults = {"convoyd_worker_restarts_total"}  # absent until the first one
    for name in table.keys() - known.keys() - only_gpu - faults:
        checker.complain(sys.argv[2], f"{name} is not on the page")
    rules = [rule for group in yaml.safe_load(rules)["groups"] for rule in group["rules"]]
    for rule in rules:
        if "record" in rule:
            checker.known[rule["record"]] = checker.labels
    listed = dict(re.findall(r"^\| `(Convoyd\w+)` \| (\w+) \|", document, re.M))
    alerts = {rule["alert"]: rule["labels"]["severity"] for rule in rules if "alert" in rule}
    for name, severity in listed.items() ^ alerts.items():
        checker.complain(sys.argv[2], f"{name} ({severity}) is not the same there and in the rules")
    used = set()
    for rule in rules:
        where = rule.get("record") or rule["alert"]
        used |= checker.expression(where, rule["expr"])
        for text in rule.get("annotations", {}).values():
            checker.are_labels(where, re.findall(r"\$labels\.(\w+)", text))
        if "alert" in rule and set(rule["annotations"]) != {"summary", "description"}:
            checker.complain(where, "wants a summary and a description")
    dashboard = json.loads(dashboard)
    for where, expression in expressions(dashboard):
        used |= checker.expression(where, expression)
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            checker.are_labels(panel["title"], re.findall(r"\{\{\s*(\w+)\s*\}\}", target["legendFormat"]))
    for variable in dashboard["templating"]["list"]:
        for name, label in re.findall(r"label_values\((\w+).*, (\w+)\)$", variable.get("definition", "")):
            checker.expression(variable["name"], name)
            checker.are_labels(variable["name"], [label])
    for rule in rules:
        if "record" in rule and rule["record"] not in used:
            checker.complain(rule["record"], "is recorded and never used")
    if len(used) < 20:
        checker.complain("metric_names.py", f"found only {sorted(used)}")
    sys.exit(checker.wrong > 0)


if __name__ == "__main__":
    main()
