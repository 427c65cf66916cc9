# SPDX-License-Identifier: Apache-2.0
"""What Prometheus would read at an address."""

import json
import re
import time
import urllib.parse
import urllib.request

_SAMPLE = re.compile(
    r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*?)\})? (?P<value>\S+)(?: \S+)?(?P<exemplar> # .*)?$"
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Sample:
    """A line: name, labels, value, and the labels of its exemplar."""

    def __init__(self, match):
        self.name = match["name"]
        self.labels = dict(_LABEL.findall(match["labels"] or ""))
        self.value = float(match["value"])
        self.exemplar = dict(_LABEL.findall(match["exemplar"] or ""))

    def has(self, labels):
        return labels.items() <= self.labels.items()


def read(url):
    """Every sample there, in OpenMetrics."""
    asked = urllib.request.Request(url, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return [Sample(match) for match in map(_SAMPLE.match, lines) if match]


def total(samples, name, **labels):
    """The sum of all samples with this name and at least these labels."""
    return sum(each.value for each in samples if each.name == name and each.has(labels))


def wait_for(url, condition, timeout_s=60):
    """Samples, as soon as the condition on them holds; AssertionError with the last ones after `timeout_s` seconds."""
    until = time.monotonic() + timeout_s
    while True:
        samples = read(url)
        if condition(samples):
            return samples
        found = "\n".join(f"{each.name} {each.labels} {each.value}" for each in samples)
        assert time.monotonic() < until, f"not within {timeout_s} s; there is\n{found}"
        time.sleep(0.1)


def query(api, promql, timeout_s=60):
    """The series that a Prometheus answers with, as soon as there is one."""
    until = time.monotonic() + timeout_s
    while True:
        with urllib.request.urlopen(
            f"{api}/api/v1/query?{urllib.parse.urlencode({'query': promql})}", timeout=30
        ) as answer:
            found = json.load(answer)["data"]["result"]
        if found:
            return found
        assert time.monotonic() < until, f"nothing for {promql} within {timeout_s} s"
        time.sleep(0.1)
