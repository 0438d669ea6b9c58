#!/usr/bin/env python3
"""What can be known of a Grafana dashboard without Grafana.

    dashboard.py check FILE          ids, places and data sources of its panels, and the variables they use
    dashboard.py expressions FILE    a line for each expression: the panel's title, a tab, the expression
    dashboard.py rules FILE          the expressions as recording rules, for promtool check rules to parse

Variables are replaced as Grafana would with everything chosen. Python's standard library only: what is JSON is
YAML too.
"""

import json
import re
import sys

VARIABLES = {"$__rate_interval": "1m", "$__range": "1h", "$instance": ".*", "$model": ".*"}
COLUMNS = 24


def expressions(dashboard):
    """(title, PromQL) of every panel and annotation."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], substituted(target["expr"])
    for annotation in dashboard["annotations"]["list"]:
        if "expr" in annotation:
            yield annotation["name"], substituted(annotation["expr"])


def substituted(expression):
    for name in sorted(VARIABLES, key=len, reverse=True):
        expression = expression.replace(name, VARIABLES[name])
    assert "$" not in expression, f"a variable that Grafana would not know: {expression}"
    return expression


def cells(panel):
    place = panel["gridPos"]
    return {
        (x, y)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    }


def check(dashboard):
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource", "no variable for the data source"
    assert variables["datasource"]["query"] == "prometheus"
    assert {"$" + name for name in variables if name != "datasource"} == {
        name for name in VARIABLES if not name.startswith("$__")
    }, f"other variables than expected: {sorted(variables)}"
    assert isinstance(dashboard["schemaVersion"], int) and dashboard["uid"] and dashboard["title"]
    assert "id" not in dashboard, "an id belongs to one Grafana; importing wants none"
    taken, ids, titles = {}, set(), set()
    for panel in dashboard["panels"]:
        title = panel["title"]
        assert panel["id"] not in ids, f"{title}: id {panel['id']} stands there twice"
        assert title not in titles, f"{title}: a title that stands there twice"
        ids.add(panel["id"])
        titles.add(title)
        for cell in cells(panel):
            assert 0 <= cell[0] < COLUMNS, f"{title}: wider than the page"
            assert cell not in taken, f"{title} lies over {taken[cell]}"
            taken[cell] = title
        if panel["type"] == "row":
            continue
        targets = panel["targets"]
        assert targets, f"{title}: shows nothing"
        assert len({target["refId"] for target in targets}) == len(targets), f"{title}: refId twice"
        for source in [panel["datasource"]] + [target["datasource"] for target in targets]:
            assert source == {"type": "prometheus", "uid": "${datasource}"}, f"{title}: {source}"
    assert len(list(expressions(dashboard))) > 20


def main():
    with open(sys.argv[2], encoding="utf-8") as file:
        dashboard = json.load(file)
    if sys.argv[1] == "check":
        check(dashboard)
    elif sys.argv[1] == "expressions":
        for title, expression in expressions(dashboard):
            assert not re.search(r"[\t\n]", title + expression)
            print(f"{title}\t{expression}")
    else:
        rules = [{"record": f"panel_{i}", "expr": e} for i, (_, e) in enumerate(expressions(dashboard))]
        print(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}, indent=1))


if __name__ == "__main__":
    main()
