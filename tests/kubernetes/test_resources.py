# SPDX-License-Identifier: Apache-2.0
"""`collector-config/kubernetes`: the resources fit their schemas and each other, and the configurations in them are the layers.

No cluster runs here. What is checked of the Operator's own work is what its source says of version 0.158.
"""

import copy
import re
import subprocess
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

import generate_kubernetes
from support import backends, otlp
from support.needs import program
from support.receiver import Receiver

FOLDER = backends.CONFIGURATIONS / "kubernetes"
RESOURCES = {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.yaml"))}
COLLECTORS = sorted(name for name, each in RESOURCES.items() if each["kind"] == "OpenTelemetryCollector")
OF_KUBERNETES = sorted(name for name, each in RESOURCES.items() if "opentelemetry.io" not in each["apiVersion"])
OF_OPERATOR = sorted(set(RESOURCES) - set(OF_KUBERNETES))
KUBERNETES = "1.34"
NAMESPACE = RESOURCES["namespace.yaml"]["metadata"]["name"]
QUICK = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
VARIABLE = re.compile(r"\$\{env:(\w+)")

needs_collector = pytest.mark.needs("otelcol-torchspan")


def layers_of(name):
    return generate_kubernetes.layers((FOLDER / name).read_text(encoding="utf-8"))


def variables(spec):
    return {each["name"]: each["value"] for each in spec["env"]}


def of_backend():
    return RESOURCES["backend.yaml"]["stringData"]


# --- the configurations ------------------------------------------------------------------------------------------------


def test_the_collectors_are_those_of_one_and_of_two_tiers():
    assert {name: layers_of(name) for name in COLLECTORS} == {
        "first-tier.yaml": ["gateway/first-tier.yaml"],
        "one-tier.yaml": ["base.yaml", "sampling.yaml", "metrics.yaml", "redaction.yaml"],
        "second-tier.yaml": ["base.yaml", "sampling.yaml", "metrics.yaml", "redaction.yaml"],
    }


def test_the_committed_configurations_are_what_the_layers_say_now():
    assert generate_kubernetes.main(["--check"]) == 0


def test_a_configuration_that_is_not_current_is_named(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "kubernetes"
    folder.mkdir()
    text = (FOLDER / "one-tier.yaml").read_text(encoding="utf-8")
    (folder / "one-tier.yaml").write_text(text.replace("decision_cache", "other_cache"), encoding="utf-8")
    for layer in layers_of("one-tier.yaml"):
        (tmp_path / layer).write_bytes((backends.CONFIGURATIONS / layer).read_bytes())
    monkeypatch.setattr(generate_kubernetes, "CONFIGURATIONS", tmp_path)
    monkeypatch.setattr(generate_kubernetes, "FOLDER", folder)
    assert generate_kubernetes.main(["--check"]) == 1
    assert "kubernetes/one-tier.yaml is not current; run `make docs`" in capsys.readouterr().err
    assert generate_kubernetes.main([]) == 0
    assert (folder / "one-tier.yaml").read_text(encoding="utf-8") == text


@pytest.fixture
def environment(monkeypatch):
    """The variables of a resource, for programs that a test starts."""

    def of(name):
        given = {**of_backend(), **variables(RESOURCES[name]["spec"])}
        for variable, value in given.items():
            monkeypatch.setenv(variable, value)
        return given

    return of


@needs_collector
@pytest.mark.parametrize("name", COLLECTORS)
def test_the_collector_reads_the_configuration_as_it_reads_the_layers(name, environment, monkeypatch, tmp_path):
    environment(name)
    monkeypatch.setenv("TORCHSPAN_LISTEN", "0.0.0.0")
    inside = tmp_path / "collector.yaml"
    inside.write_text(yaml.safe_dump(RESOURCES[name]["spec"]["config"]), encoding="utf-8")

    def resolved(*files):
        options = [option for file in files for option in ("--config", str(file))]
        return subprocess.run(
            [program("otelcol-torchspan"), "print-config", "--mode", "unredacted", *options],
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    of_resource = yaml.safe_load(resolved(inside))
    assert of_resource["service"]["pipelines"]
    assert of_resource == yaml.safe_load(resolved(*(backends.CONFIGURATIONS / layer for layer in layers_of(name))))


FREE_PORTS = {
    "receivers": {
        "otlp": {
            "protocols": {
                "grpc": {"endpoint": "127.0.0.1:${env:TORCHSPAN_GRPC_PORT}"},
                "http": {"endpoint": "127.0.0.1:${env:TORCHSPAN_HTTP_PORT}"},
            }
        }
    },
    "extensions": {"health_check": {"endpoint": "127.0.0.1:${env:TORCHSPAN_HEALTH_PORT}"}},
    "service": {
        "telemetry": {
            "metrics": {
                "readers": [
                    {"pull": {"exporter": {"prometheus": {"host": "127.0.0.1", "port": "${env:TORCHSPAN_SELF_PORT}"}}}}
                ]
            }
        }
    },
}
"""Over a configuration of Kubernetes, where each pod has all ports to itself."""
FREE_METRICS = {"exporters": {"prometheus": {"endpoint": "127.0.0.1:${env:TORCHSPAN_METRICS_PORT}"}}}


def a_compilation():
    made = otlp.Ids(1)
    trace_id = made.trace()
    root = otlp.make_span(made, "torch_tensorrt.compile", trace_id, attributes={"torchspan.keep": True})
    return [root, otlp.make_span(made, "torch_tensorrt.convert", trace_id, parent=root)]


@needs_collector
def test_one_tier_passes_a_compilation_on():
    spans = a_compilation()
    config = RESOURCES["one-tier.yaml"]["spec"]["config"]
    given = variables(RESOURCES["one-tier.yaml"]["spec"])
    with Receiver() as backend:
        environment = {**given, **of_backend(), "TORCHSPAN_OTLP_ENDPOINT": backend.url, "TORCHSPAN_DECISION_WAIT": "1s"}
        with backends.collector(config, FREE_PORTS, FREE_METRICS, environment=environment) as collector:
            otlp.send(collector.http, spans)
            backend.wait_for(lambda found: len(found.spans()) >= 2)
            collector.stop()
            assert collector.complaints() == []
    assert otlp.plain(backend.messages()) == otlp.plain([otlp.request(spans)])
    assert "x-scope-orgid: research" in backend.bodies[0][1].lower().splitlines()


@needs_collector
def test_two_tiers_pass_a_compilation_on():
    spans = a_compilation()
    first, second = (RESOURCES[f"{each}-tier.yaml"]["spec"]["config"] for each in ("first", "second"))
    with Receiver() as backend:
        of_second = {"TORCHSPAN_OTLP_ENDPOINT": backend.url, "TORCHSPAN_DECISION_WAIT": "1s"}
        with backends.collector(second, FREE_PORTS, FREE_METRICS, environment=of_second) as behind:
            given = variables(RESOURCES["first-tier.yaml"]["spec"])["TORCHSPAN_SECOND_TIER"]
            of_first = {"TORCHSPAN_SECOND_TIER": re.sub(r"\[.*\]", f"[{behind.grpc}]", given)}
            with backends.collector(first, FREE_PORTS, environment=of_first) as front:
                otlp.send(front.http, spans)
                backend.wait_for(lambda found: len(found.spans()) >= 2)
                assert (front.complaints(), behind.complaints()) == ([], [])
    assert otlp.plain(backend.messages()) == otlp.plain([otlp.request(spans)])


@pytest.mark.parametrize("name", COLLECTORS)
def test_it_is_given_variables_that_its_layers_read_and_all_that_they_require(name):
    spec = RESOURCES[name]["spec"]
    text = yaml.safe_dump(spec["config"])
    given = {*variables(spec), *(of_backend() if "envFrom" in spec else ())} - {"GOMEMLIMIT"}
    assert given <= set(VARIABLE.findall(text))
    assert set(re.findall(r"\$\{env:(\w+)\}", text)) <= given


# --- what the Operator makes of them -----------------------------------------------------------------------------------


def ports(config):
    """Name → port, as the Operator finds them: by digits behind a colon in the address, with a name of at most 15 characters."""
    found = {}
    for protocol, each in config["receivers"]["otlp"]["protocols"].items():
        found[f"otlp-{protocol}"] = each["endpoint"]
    if "prometheus" in config["exporters"]:
        found["prometheus"] = config["exporters"]["prometheus"]["endpoint"]
    found["health"] = config["extensions"]["health_check"]["endpoint"]
    (reader,) = config["service"]["telemetry"]["metrics"]["readers"]
    exporter = reader["pull"]["exporter"]["prometheus"]
    assert isinstance(exporter["port"], int)
    found["metrics"] = f"{exporter['host']}:{exporter['port']}"
    return {name: int(re.search(r":(\d+)", address)[1]) for name, address in found.items()}


@pytest.mark.parametrize("name", COLLECTORS)
def test_the_operator_finds_every_port(name):
    of_programs = {} if name == "first-tier.yaml" else {"prometheus": 8889}
    assert ports(RESOURCES[name]["spec"]["config"]) == {
        "otlp-grpc": 4317,
        "otlp-http": 4318,
        "health": 13133,
        "metrics": 8888,
        **of_programs,
    }


def pod_owner(resource):
    """The StatefulSet that the Operator makes of a Collector, as far as the resource decides on it."""
    spec, name = resource["spec"], f"{resource['metadata']['name']}-collector"
    labels = {"app.kubernetes.io/name": name}
    same = {key: spec[key] for key in ("env", "envFrom", "resources", "securityContext", "volumeMounts") if key in spec}
    listed = [{"name": key, "containerPort": port} for key, port in ports(spec["config"]).items()]
    probe = {"httpGet": {"path": "/", "port": ports(spec["config"])["health"]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {**resource["metadata"], "name": name},
        "spec": {
            "replicas": spec["replicas"],
            "serviceName": f"{name}-headless",
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [
                        {
                            "name": "otc-container",
                            "image": spec["image"],
                            "ports": listed,
                            "livenessProbe": probe,
                            **same,
                        }
                    ],
                    "securityContext": spec["podSecurityContext"],
                    "terminationGracePeriodSeconds": spec["terminationGracePeriodSeconds"],
                },
            },
            "volumeClaimTemplates": spec["volumeClaimTemplates"],
        },
    }


@pytest.mark.parametrize("name", COLLECTORS)
def test_the_pods_that_the_operator_makes_fit_the_schema(name):
    kubernetes_validate.validate(pod_owner(RESOURCES[name]), KUBERNETES, strict=True)


@pytest.mark.parametrize("name", COLLECTORS)
def test_the_queue_is_on_a_volume_of_the_pods_own(name):
    spec = RESOURCES[name]["spec"]
    (mount,), (claim,) = spec["volumeMounts"], spec["volumeClaimTemplates"]
    directory = spec["config"]["extensions"]["file_storage/queue"]["directory"]
    assert mount["name"] == claim["metadata"]["name"]
    assert "TORCHSPAN_DATA" not in variables(spec)
    assert re.search(r":-(.*)\}", directory)[1].startswith(f"{mount['mountPath']}/")


@pytest.mark.parametrize("name", COLLECTORS)
def test_the_collector_refuses_spans_before_the_container_is_out_of_memory(name):
    spec = RESOURCES[name]["spec"]
    limit = int(spec["resources"]["limits"]["memory"].removesuffix("Gi")) * 1024
    refuses_at = int(variables(spec)["TORCHSPAN_MEMORY_MIB"])
    assert 0.75 < refuses_at / limit < 0.81
    assert variables(spec)["GOMEMLIMIT"] == f"{refuses_at}MiB"


# --- the resources with each other -------------------------------------------------------------------------------------


def test_programs_send_to_the_collector_that_they_meet_first():
    endpoint = RESOURCES["instrumentation.yaml"]["spec"]["exporter"]["endpoint"]
    for name in ("one-tier.yaml", "first-tier.yaml"):
        resource = RESOURCES[name]
        port = ports(resource["spec"]["config"])["otlp-http"]
        assert endpoint == f"http://{resource['metadata']['name']}-collector.{NAMESPACE}.svc:{port}"


def test_the_first_tier_names_each_pod_of_the_second():
    second = RESOURCES["second-tier.yaml"]
    name, port = f"{second['metadata']['name']}-collector", ports(second["spec"]["config"])["otlp-grpc"]
    named = yaml.safe_load(variables(RESOURCES["first-tier.yaml"]["spec"])["TORCHSPAN_SECOND_TIER"])
    assert named == {
        "static": {
            "hostnames": [
                f"{name}-{number}.{name}-headless.{NAMESPACE}.svc:{port}"
                for number in range(second["spec"]["replicas"])
            ]
        }
    }


def test_prometheus_reads_the_pods_of_both_tiers_as_the_readme_says():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^   ```yaml\n(.*?)^   ```", text, re.MULTILINE | re.DOTALL)
    jobs = {each["job_name"]: each for each in yaml.safe_load(block)["scrape_configs"]}
    first, second = (
        f"{RESOURCES[f'{each}-tier.yaml']['metadata']['name']}-collector-headless.{NAMESPACE}.svc"
        for each in ("first", "second")
    )
    found = ports(RESOURCES["second-tier.yaml"]["spec"]["config"])
    assert {name: job["dns_sd_configs"] for name, job in jobs.items()} == {
        "spans": [{"names": [second], "type": "A", "port": found["prometheus"]}],
        "collector": [{"names": [first, second], "type": "A", "port": found["metrics"]}],
    }
    connector = RESOURCES["second-tier.yaml"]["spec"]["config"]["connectors"]["span_metrics"]
    assert connector["metrics_flush_interval"].endswith(f":-{jobs['spans']['scrape_interval']}}}")
    local = yaml.safe_load((backends.CONFIGURATIONS / "local" / "prometheus.yml").read_text(encoding="utf-8"))
    assert [(each["job_name"], each.get("honor_labels")) for each in local["scrape_configs"]] == [
        (name, job.get("honor_labels")) for name, job in jobs.items()
    ]


def test_pods_ask_for_the_instrumentation_by_its_name():
    found = RESOURCES["instrumentation.yaml"]["metadata"]
    pods = RESOURCES["program.yaml"]["spec"]["template"]
    prefix = "instrumentation.opentelemetry.io"
    assert pods["metadata"]["annotations"] == {
        f"{prefix}/inject-python": f"{found['namespace']}/{found['name']}",
        f"{prefix}/container-names": pods["spec"]["containers"][0]["name"],
    }


def test_all_but_the_program_are_in_the_namespace_and_their_secret_is_there():
    elsewhere = {"namespace.yaml", "program.yaml"}
    assert {each["metadata"]["namespace"] for name, each in RESOURCES.items() if name not in elsewhere} == {NAMESPACE}
    secret = RESOURCES["backend.yaml"]["metadata"]["name"]
    for name in ("one-tier.yaml", "second-tier.yaml"):
        assert RESOURCES[name]["spec"]["envFrom"] == [{"secretRef": {"name": secret}}]


def test_the_image_is_of_the_version_that_the_configurations_are_tested_with():
    manifest = yaml.safe_load((backends.CONFIGURATIONS / "distribution" / "manifest.yaml").read_text(encoding="utf-8"))
    images = {RESOURCES[name]["spec"]["image"] for name in COLLECTORS}
    assert images == {f"otel/opentelemetry-collector-contrib:{manifest['dist']['version']}"}


# --- schemas -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OF_KUBERNETES)
def test_a_resource_of_kubernetes_fits_its_schema(name):
    kubernetes_validate.validate(RESOURCES[name], KUBERNETES, strict=True)


@pytest.fixture(scope="module")
def schemas():
    """(API version, kind) → schema, out of the Operator's definitions; a key that they do not know is refused."""
    found = {}
    for path in Path(program("operator-crds")).glob("*.yaml"):
        definition = yaml.load(path.read_text(encoding="utf-8"), QUICK)["spec"]
        for version in definition["versions"]:
            key = (f"{definition['group']}/{version['name']}", definition["names"]["kind"])
            found[key] = closed(version["schema"]["openAPIV3Schema"])
    return found


def closed(schema):
    """The same schema, in which a map has no other keys than those that are named."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    is_open = made.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in made
    if isinstance(made.get("properties"), dict) and made.get("type") == "object" and not is_open:
        made["additionalProperties"] = False
    return made


def check(resource, schemas):
    resource = copy.deepcopy(resource)
    resource["metadata"] = {}  # Kubernetes' own, which the Operator's schemas do not repeat
    jsonschema.Draft202012Validator(schemas[resource["apiVersion"], resource["kind"]]).validate(resource)


@pytest.mark.needs("operator-crds")
@pytest.mark.parametrize("name", OF_OPERATOR)
def test_a_resource_of_the_operator_fits_its_schema(name, schemas):
    check(RESOURCES[name], schemas)


@pytest.mark.needs("operator-crds")
@pytest.mark.parametrize("name", OF_OPERATOR)
def test_a_misspelled_key_does_not_fit_the_schema(name, schemas):
    resource = copy.deepcopy(RESOURCES[name])
    resource["spec"]["endpiont"] = "http://127.0.0.1:4318"
    with pytest.raises(jsonschema.ValidationError, match="endpiont"):
        check(resource, schemas)
