#!/usr/bin/env python3
"""What a collector of traces got (tests/tools/trace_collector.py) is what convoyd says that it sends.

    trace_check.py POSTS BEGUN [TRACE_ID PARENT_ID STATUS IMAGES]...

POSTS: the collector's file; BEGUN: seconds since the epoch before which no span may begin. Each server span is checked
by itself. For each group of four there must be exactly one, of that trace ("-": one that is not named) and under that
parent ("": none), with that status and so many images, and there must be no others. Prints the number of
POSTs, of server spans, and the largest number of them in a POST."""

import json
import sys
import time

STAGES = ["wait", "decode", "queue", "input", "compute", "output"]


def attributes(span):
    return {one["key"]: one["value"].get("stringValue", one["value"].get("intValue")) for one in span["attributes"]}


def check_id(text, digits):
    assert len(text) == digits and int(text, 16) > 0 and text == text.lower(), text


def times(span):
    return int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])


def check_span(span, stages, begun_ns):
    check_id(span["traceId"], 32)
    check_id(span["spanId"], 16)
    start, end = times(span)
    assert begun_ns <= start < end <= time.time_ns(), (begun_ns, start, end)
    of = attributes(span)
    assert span["name"] == f"POST {of['http.route']}" and of["http.request.method"] == "POST", span
    assert of["convoy.version"] == "1" and of["convoy.request_id"], of
    status = int(of["http.response.status_code"])
    assert ("status" in span) == (status >= 500), span
    if status != 200:
        assert not stages, stages
        return
    assert [one["name"] for one in stages] == STAGES, stages
    assert of["convoy.device"] == "null" and int(of["convoy.batch_size"]) >= 1, of
    at = start + int(of["convoy.receive_us"]) * 1000
    for stage in stages:
        check_id(stage["spanId"], 16)
        assert stage["kind"] == 1 and stage["traceId"] == span["traceId"] and stage["parentSpanId"] == span["spanId"], stage
        from_ns, to_ns = times(stage)
        assert from_ns == at and from_ns <= to_ns <= end, (at, stage, end)
        at = to_ns
    explained = at - start
    assert explained > 0, span


def main():
    begun_ns = int(float(sys.argv[2]) * 1e9)
    wanted = [tuple(sys.argv[i : i + 4]) for i in range(3, len(sys.argv), 4)]
    posts = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
    servers, identifiers, sizes = [], set(), []
    for post in posts:
        assert post["good"], "another path or type than a collector's"
        (resource,) = post["document"]["resourceSpans"]
        service = attributes(resource["resource"])
        assert service["service.name"] == "convoyd" and service["service.version"], service
        (scope,) = resource["scopeSpans"]
        spans = scope["spans"]
        mine = [span for span in spans if span["kind"] == 2]
        for span in spans:
            assert span["spanId"] not in identifiers, "an identifier stands twice"
            identifiers.add(span["spanId"])
        for span in mine:
            check_span(span, [one for one in spans if one.get("parentSpanId") == span["spanId"]], begun_ns)
        assert len(spans) - len(mine) == sum(6 for span in mine if attributes(span)["http.response.status_code"] == "200")
        servers += mine
        sizes.append(len(mine))
    named = {one[0] for one in wanted}
    for trace, parent, status, images in wanted:
        found = [
            span
            for span in servers
            if (trace == span["traceId"] or (trace == "-" and span["traceId"] not in named))
            and span.get("parentSpanId", "") == parent
            and attributes(span)["http.response.status_code"] == status
            and attributes(span)["convoy.images"] == images
        ]
        assert len(found) == 1, (trace, parent, status, images, len(found))
    assert not wanted or len(servers) == len(wanted), (len(servers), len(wanted))
    print(len(posts), len(servers), max(sizes, default=0))


if __name__ == "__main__":
    main()
