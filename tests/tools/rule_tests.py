#!/usr/bin/env python3
"""Every alert of a rule file must have a unit test that sees it fire and one that sees it silent.

    rule_tests.py RULES TESTS

promtool runs the tests, but does not miss those that are missing. Needs python3-yaml.
"""

import sys

import yaml


def main():
    rules, tests = (yaml.safe_load(open(path, encoding="utf-8")) for path in sys.argv[1:3])
    fires, silent = set(), set()
    for test in tests["tests"]:
        for case in test.get("alert_rule_test", []):
            (fires if case.get("exp_alerts") else silent).add(case["alertname"])
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule}
    wrong = [f"{name}: no test sees it fire" for name in sorted(alerts - fires)]
    wrong += [f"{name}: no test sees it silent" for name in sorted(alerts - silent)]
    wrong += [f"{name}: a test of an alert that is not there" for name in sorted((fires | silent) - alerts)]
    print("\n".join(wrong) or f"{len(alerts)} alerts, each tested both ways")
    sys.exit(bool(wrong) or not alerts)


if __name__ == "__main__":
    main()
