# SPDX-License-Identifier: Apache-2.0
"""The files of `collector-config` as a whole: each starts, in every combination that makes sense, and says what it reads."""

import re
import socket
import subprocess
from collections import Counter

import pytest
import yaml

from support import backends, otlp, scraped
from support.receiver import GrpcReceiver, Receiver

FOLDER = backends.CONFIGURATIONS
LAYERS = sorted(
    path.relative_to(FOLDER).as_posix() for path in [*FOLDER.glob("*.yaml"), *FOLDER.glob("gateway/*.yaml")]
)
ALONE = {"base.yaml", "gateway/first-tier.yaml"}
"""Layers that need no other."""
VARIABLE = re.compile(r"\$\{env:(\w+)(?::-([^}]*))?\}")
ROW = re.compile(r"^#   ((?:TORCHSPAN_\w+(?:, )?)+)", re.MULTILINE)

COMBINATIONS = [
    ("base.yaml",),
    *(("base.yaml", layer) for layer in LAYERS if layer not in ALONE),
    ("base.yaml", *(layer for layer in LAYERS if layer not in ALONE)),
    ("base.yaml", *(layer for layer in reversed(LAYERS) if layer not in ALONE)),
    ("gateway/first-tier.yaml",),
    ("gateway/first-tier.yaml", "tls.yaml"),
]
needs_collector = pytest.mark.needs("otelcol-torchspan")


def ids(layers):
    return " ".join(layers) if len(layers) < 3 else f"all, {layers[1]} first"


@pytest.fixture
def environment(tmp_path, certificates):
    """What the layers require; there is a receiver at each address, to which gRPC connects at once."""
    with GrpcReceiver() as receiver:
        yield {
            "TORCHSPAN_OTLP_ENDPOINT": receiver.url,
            "TORCHSPAN_INSECURE": "true",
            "TORCHSPAN_FILES": f"{tmp_path}/*.jsonl",
            "TORCHSPAN_SECOND_TIER": f"{{static: {{hostnames: [{receiver.url.removeprefix('http://')}]}}}}",
            "TORCHSPAN_METRICS_ENDPOINT": "http://127.0.0.1:1/api/v1/otlp",
            "TORCHSPAN_RECEIVER_CERT_FILE": str(certificates / "server.pem"),
            "TORCHSPAN_RECEIVER_KEY_FILE": str(certificates / "server.key"),
        }


@needs_collector
@pytest.mark.parametrize("layers", COMBINATIONS, ids=ids)
def test_it_starts_and_complains_of_nothing(layers, environment):
    with backends.collector(*layers, environment=environment) as collector:
        names = {each.name for each in scraped.read(collector.own_metrics)}
        assert collector.stop() == 0
        assert collector.complaints() == []
    assert "otelcol_process_uptime" in names or "otelcol_process_uptime_seconds" in names


@needs_collector
@pytest.mark.parametrize("layers", COMBINATIONS, ids=ids)
def test_its_own_check_of_configurations_passes(layers, environment, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    files = [argument for layer in layers for argument in ("--config", FOLDER / layer)]
    checked = subprocess.run(
        [backends.program("otelcol-torchspan"), "validate", *files], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@needs_collector
def test_without_an_address_for_the_traces_it_does_not_start():
    with backends.collector("base.yaml", environment={"TORCHSPAN_OTLP_ENDPOINT": ""}, wait=False) as collector:
        assert collector.process.wait(30) == 1
        assert "at least one endpoint must be specified" in "\n".join(collector.log())


@needs_collector
def test_it_listens_on_the_loopback_interface_alone():
    with backends.collector("base.yaml") as collector:
        for port in collector.ports.values():
            socket.create_connection(("127.0.0.1", port), 10).close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.2", port), 10)


@needs_collector
def test_it_listens_where_it_is_made_to():
    with backends.collector("base.yaml", environment={"TORCHSPAN_LISTEN": "0.0.0.0"}) as collector:
        for port in collector.ports.values():
            socket.create_connection(("127.0.0.2", port), 10).close()


@needs_collector
def test_logs_are_not_received_as_the_readme_says():
    with backends.collector("base.yaml") as collector, pytest.raises(OSError, match="404"):
        otlp.post(collector.http, otlp.request([]), path="/v1/logs")


def test_every_layer_is_in_a_combination_that_is_started():
    assert {layer for layers in COMBINATIONS for layer in layers} == set(LAYERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_file_says_at_its_head_which_variables_it_reads(layer):
    text = (FOLDER / layer).read_text(encoding="utf-8")
    said = [name for row in ROW.findall(text) for name in row.split(", ") if name]
    assert Counter(said) == Counter({name for name, _ in VARIABLE.findall(text)})


@pytest.mark.parametrize("layer", LAYERS)
def test_the_defaults_that_it_names_are_those_that_hold(layer):
    text = (FOLDER / layer).read_text(encoding="utf-8")
    named = dict(
        re.findall(
            r"^#   (TORCHSPAN_\w+) .*\(default: ([\w./:*-]*\d[\w./:*-]*|/[\w./:*-]+|false)[;)]", text, re.MULTILINE
        )
    )
    assert named == {name: default for name, default in VARIABLE.findall(text) if default not in {"", "[]"}}


def components(layers):
    """`kind/type` of every component that layers define."""
    found = set()
    for layer in layers:
        config = yaml.safe_load((FOLDER / layer).read_text(encoding="utf-8"))
        for kind in ("receivers", "processors", "exporters", "connectors", "extensions"):
            found |= {f"{kind}/{name.partition('/')[0]}" for name in config.get(kind, {})}
    return found


def test_the_distribution_has_what_the_configurations_use():
    manifest = yaml.safe_load((FOLDER / "distribution" / "manifest.yaml").read_text(encoding="utf-8"))
    built = set()
    for kind in ("receivers", "processors", "exporters", "connectors", "extensions"):
        for each in manifest[kind]:
            module = each["gomod"].split()[0].rpartition("/")[2]
            name = module.removesuffix(kind[:-1])
            built.add(f"{kind}/{name if kind == 'receivers' and name == 'otlp' else RENAMED.get(name, name)}")
    assert built - components(LAYERS) == ONLY_IN_TESTS
    assert components(LAYERS) <= built


RENAMED = {
    "otlpjsonfile": "otlp_json_file",
    "memorylimiter": "memory_limiter",
    "tailsampling": "tail_sampling",
    "probabilisticsampler": "probabilistic_sampler",
    "otlp": "otlp_grpc",
    "otlphttp": "otlp_http",
    "loadbalancing": "load_balancing",
    "spanmetrics": "span_metrics",
    "healthcheck": "health_check",
    "filestorage": "file_storage",
}
ONLY_IN_TESTS = {"exporters/file", "processors/probabilistic_sampler"}


def test_the_readme_has_a_line_for_each_file():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    files = [path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()]
    said = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    assert sorted(said) == sorted(name for name in files if name != "README.md")


@needs_collector
def test_all_layers_together_pass_a_trace_on_unchanged(environment):
    layers = ("base.yaml", "sampling.yaml", "metrics.yaml", "redaction.yaml", "file.yaml")
    made = otlp.Ids(1)
    trace_id = made.trace()
    root = otlp.make_span(made, "torch_tensorrt.compile", trace_id, attributes={"torchspan.keep": True})
    child = otlp.make_span(made, "torch_tensorrt.convert", trace_id, parent=root, attributes={"torchspan.keep": True})
    with (
        Receiver() as backend,
        backends.collector(
            *layers,
            environment={
                **environment,
                "TORCHSPAN_OTLP_ENDPOINT": backend.url,
                "TORCHSPAN_DECISION_WAIT": "1s",
            },
        ) as collector,
    ):
        otlp.send(collector.http, [root, child])
        backend.wait_for(lambda receiver: len(receiver.spans()) >= 2)
        collector.stop()
        assert otlp.plain(backend.messages()) == otlp.plain([otlp.request([root, child])])
        assert collector.complaints() == []
