# SPDX-License-Identifier: Apache-2.0
"""The page docs/how-to/deploying.md: its commands start Collectors that pass a trace on, and what it names exists."""

import re
import subprocess
from contextlib import ExitStack

import pytest
import yaml

from support import backends, otlp
from support.needs import program
from support.receiver import Receiver

DOCS = backends.CONFIGURATIONS.parent / "docs"
PAGE = (DOCS / "how-to" / "deploying.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
MADE_HERE = {"TORCHSPAN_OTLP_ENDPOINT", "TORCHSPAN_SECOND_TIER", "TORCHSPAN_LISTEN"}
"""Variables of the page whose values are another network's."""


def layers(command):
    return re.findall(r"--config (\S+)", command)


def variables(command):
    return dict(re.findall(r'^export (\w+)="?(.*?)"?$', command, re.MULTILINE))


def commands(section):
    """The commands of a section that start a Collector, in order."""
    blocks = re.findall(r"^```shell\n(.*?)^```", SECTIONS[section], re.MULTILINE | re.DOTALL)
    return [block for block in blocks if "--config" in block]


def a_trace():
    made = otlp.Ids(1)
    return [otlp.make_span(made, "torch_tensorrt.compile", made.trace(), attributes={"torchspan.keep": True})]


def start(command, backend, **environment):
    """The Collector of a command, before a backend of the test."""
    here = {name: value for name, value in variables(command).items() if name not in MADE_HERE}
    given = {"TORCHSPAN_OTLP_ENDPOINT": backend.url, "TORCHSPAN_DECISION_WAIT": "1s", **environment}
    return backends.collector(*layers(command), environment={**here, **given})


@pytest.mark.needs("otelcol-torchspan")
@pytest.mark.parametrize("section", ["One machine", "One Collector for many programs"])
def test_the_collector_of_a_section_passes_a_compilation_on(section):
    (command,) = commands(section)
    with Receiver() as backend, start(command, backend) as collector:
        otlp.send(collector.http, a_trace())
        backend.wait_for(lambda receiver: receiver.spans())
        assert otlp.plain(backend.messages()) == otlp.plain([otlp.request(a_trace())])
        assert collector.complaints() == []


@pytest.mark.needs("otelcol-torchspan")
def test_the_two_tiers_pass_a_compilation_on():
    second, first = commands("Two tiers")
    with Receiver() as backend, ExitStack() as held:
        behind = [held.enter_context(start(second, backend)) for _ in range(2)]
        found = f"{{static: {{hostnames: [{', '.join(each.grpc for each in behind)}]}}}}"
        front = held.enter_context(start(first, backend, TORCHSPAN_SECOND_TIER=found))
        otlp.send(front.http, a_trace())
        backend.wait_for(lambda receiver: receiver.spans())
        assert otlp.plain(backend.messages()) == otlp.plain([otlp.request(a_trace())])
        assert [each.complaints() for each in (front, *behind)] == [[], [], []]


@pytest.mark.needs("otelcol-torchspan")
def test_the_collector_with_tls_starts(certificates):
    (command,) = commands("TLS")
    files = {
        name: str(certificates / value.rpartition("/")[2])
        for name, value in variables(command).items()
        if value.startswith("/")
    }
    assert len(files) == 3
    with Receiver() as backend, start(command, backend, **files) as collector:
        assert collector.complaints() == []


@pytest.mark.needs("promtool")
def test_promtool_finds_nothing_wrong_with_the_configuration_of_prometheus(tmp_path):
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (rules,) = yaml.safe_load(text)["rule_files"]
    (tmp_path / "prometheus.yml").write_text(text, encoding="utf-8")
    rules_here = backends.CONFIGURATIONS / "prometheus" / rules
    (tmp_path / rules).write_text(rules_here.read_text(encoding="utf-8"), encoding="utf-8")
    command = [program("promtool"), "check", "config", "--lint-fatal", tmp_path / "prometheus.yml"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_is_tested():
    tested = {"One machine", "One Collector for many programs", "Two tiers", "TLS"}
    assert {section for section in SECTIONS if commands(section)} == tested


def test_every_variable_is_one_that_a_configuration_reads():
    texts = [path.read_text(encoding="utf-8") for path in backends.CONFIGURATIONS.rglob("*.yaml")]
    read = {name for text in texts for name in re.findall(r"\$\{env:(TORCHSPAN_\w+)", text)}
    assert set(re.findall(r"\bTORCHSPAN_\w+", PAGE)) <= read
