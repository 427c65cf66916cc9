# SPDX-License-Identifier: Apache-2.0
"""`collector-config/compose`: the files fit the schema, all that they mount is there, and the real programs run with it.

No container engine runs here. What Compose and the images would do with a file is put in folders: its mounts, and for
otel-lgtm the commands that its scripts start.
"""

import json
import re
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import compose_spec
import pytest
import yaml

import running
from support import backends, otlp, scraped
from support.needs import program
from support.receiver import Receiver

FOLDER = backends.CONFIGURATIONS / "compose"
FILES = ("quick-look.yaml", "stack.yaml")
SERVICES = {
    (name, service): each
    for name in FILES
    for service, each in yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))["services"].items()
}
INSTALLED = Path(__file__).resolve().parents[2] / "tools" / "backends"
every_file = pytest.mark.parametrize("name", FILES)
every_service = pytest.mark.parametrize(("name", "service"), SERVICES)


def file(name):
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def mounts(service):
    """Target → file or folder of the repository, and the names of volumes with their targets."""
    bound, volumes = {}, {}
    for each in service.get("volumes", ()):
        source, target, *options = each.split(":")
        if source.startswith("."):
            assert options == ["ro"], each
            bound[target] = (FOLDER / source).resolve()
        else:
            volumes[target] = source
    return bound, volumes


# --- the files ---------------------------------------------------------------------------------------------------------


@every_file
def test_the_file_fits_the_schema_of_compose(name):
    compose_spec.PyCompose.from_yaml((FOLDER / name).read_text(encoding="utf-8")).validate()


def test_a_misspelled_key_does_not_fit_the_schema():
    text = (FOLDER / "stack.yaml").read_text(encoding="utf-8").replace("stop_grace_period", "stop_grace_time")
    with pytest.raises(ValueError, match="stop_grace_time"):
        compose_spec.PyCompose.from_yaml(text)


def test_the_services_are_these():
    assert {key: each["image"] for key, each in SERVICES.items()} == {
        ("quick-look.yaml", "lgtm"): "grafana/otel-lgtm:0.31.0",
        ("stack.yaml", "collector"): "otel/opentelemetry-collector-contrib:0.158.0",
        ("stack.yaml", "jaeger"): "jaegertracing/jaeger:2.22.0",
        ("stack.yaml", "tempo"): "grafana/tempo:3.0.3",
        ("stack.yaml", "prometheus"): "prom/prometheus:v3.15.0",
        ("stack.yaml", "grafana"): "grafana/grafana:13.2.3",
    }


def test_the_collector_and_prometheus_have_the_versions_that_the_tests_run():
    manifest = yaml.safe_load((backends.CONFIGURATIONS / "distribution" / "manifest.yaml").read_text(encoding="utf-8"))
    assert SERVICES["stack.yaml", "collector"]["image"].endswith(f":{manifest['dist']['version']}")
    modules = (INSTALLED / "prometheus" / "go.mod").read_text(encoding="utf-8")
    minor = re.search(r"github.com/prometheus/prometheus v0\.3(\d+)\.0", modules)[1]
    assert SERVICES["stack.yaml", "prometheus"]["image"].endswith(f":v3.{minor}.0")


@every_service
def test_every_port_is_of_this_machine_alone(name, service):
    assert [each for each in SERVICES[name, service].get("ports", ()) if not each.startswith("127.0.0.1:")] == []


@every_service
def test_everything_that_is_mounted_is_there(name, service):
    bound, volumes = mounts(SERVICES[name, service])
    assert [str(source) for source in bound.values() if not source.exists()] == []
    whole = file(name)
    assert set(volumes.values()) <= set(whole["volumes"])
    assert {each["source"] for each in SERVICES[name, service].get("configs", ())} <= set(whole["configs"])


@every_service
def test_a_folder_is_mounted_as_a_folder_and_a_file_as_a_file(name, service):
    bound, _ = mounts(SERVICES[name, service])
    assert [target for target, source in bound.items() if bool(Path(target).suffix) != source.is_file()] == []


@every_file
def test_grafana_reads_every_dashboard_where_the_provisioning_says(name):
    of_grafana = SERVICES[name, "lgtm" if name == "quick-look.yaml" else "grafana"]
    bound, _ = mounts(of_grafana)
    provisioning = backends.CONFIGURATIONS / "grafana" / "provisioning" / "dashboards" / "torchspan.yaml"
    assert provisioning in bound.values() or provisioning.parent in bound.values()
    (provider,) = yaml.safe_load(provisioning.read_text(encoding="utf-8"))["providers"]
    assert bound[provider["options"]["path"]] == backends.CONFIGURATIONS / "grafana" / "dashboards"


def test_the_data_sources_are_the_services_of_the_stack():
    path = backends.CONFIGURATIONS / "grafana" / "provisioning" / "datasources" / "torchspan.yaml"
    found = {each["uid"]: each["url"] for each in yaml.safe_load(path.read_text(encoding="utf-8"))["datasources"]}
    listening = {"prometheus": 9090, "tempo": 3200, "jaeger": 16686}
    assert found == {service: f"http://{service}:{port}" for service, port in listening.items()}
    assert set(listening) <= {service for name, service in SERVICES if name == "stack.yaml"}


# --- the programs in them ----------------------------------------------------------------------------------------------

LISTENING = {"collector": "TORCHSPAN_METRICS_PORT", "jaeger": "JAEGER_OTLP_PORT", "tempo": "TEMPO_OTLP_PORT"}
"""Service → variable of a port; where another names the service and a port, it is one of these, or its metrics."""
DEFAULTS = {
    "TORCHSPAN_METRICS_PORT": 8889,
    "TORCHSPAN_SELF_PORT": 8888,
    "JAEGER_OTLP_PORT": 14318,
    "TEMPO_OTLP_PORT": 14418,
}


class Machine:
    """Containers of one file as folders, whose programs run with free ports of the loopback interface.

    hosts: how the programs of the file name each other, or the container itself.
    """

    def __init__(self, folder, name, hosts):
        self._folder, self._name, self._hosts = folder, name, hosts
        wanted = (
            *("TORCHSPAN_GRPC_PORT", "TORCHSPAN_HTTP_PORT", "TORCHSPAN_HEALTH_PORT", "PROMETHEUS_PORT"),
            *("JAEGER_API_PORT", "JAEGER_GRPC_PORT", "JAEGER_HEALTH_PORT", "TEMPO_API_PORT", "TEMPO_GRPC_PORT"),
            *DEFAULTS,
        )
        self.ports = dict(zip(wanted, running.free_ports(len(wanted)), strict=True))

    def at(self, variable, path=""):
        return f"http://127.0.0.1:{self.ports[variable]}{path}"

    def _here(self, text):
        """The text with addresses of this machine in place of those of containers."""
        for variable, default in DEFAULTS.items():
            text = re.sub(rf"\b({'|'.join(self._hosts)}):{default}\b", f"127.0.0.1:{self.ports[variable]}", text)
        return text.replace("0.0.0.0", "127.0.0.1")

    def root(self, service):
        """The files of a container: what is mounted, and empty volumes."""
        root = self._folder / service
        if root.exists():
            return root
        whole, each = file(self._name), SERVICES[self._name, service]
        bound, volumes = mounts(each)
        for target, source in bound.items():
            self._inside(root, target).symlink_to(source)
        for config in each.get("configs", ()):
            text = self._here(whole["configs"][config["source"]]["content"])
            self._inside(root, config["target"]).write_text(text, encoding="utf-8")
        for target in volumes:
            self._inside(root, target).mkdir()
        return root

    @staticmethod
    def _inside(root, path):
        path = root / path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @contextmanager
    def run(self, service, path, command, ready, **more):
        """A program of a container, from `path`; command: as in the container. more: variables besides those of the file."""
        root = self.root(service)
        given = {key: str(value) for key, value in SERVICES[self._name, service].get("environment", {}).items()}
        variables = {
            key: f"{root}{value}" if value.startswith("/") else self._here(value) for key, value in given.items()
        }
        variables |= {key: str(port) for key, port in self.ports.items()} | more
        command = [path, *(re.sub(r"=(file:)?/", rf"=\1{root}/", each) for each in command)]
        started = running.Running(service, command, root / "said.log", variables, ready)
        try:
            started.wait_until_ready()
            yield started
        finally:
            started.kill()
            print(f"--- what {service} said\n{started.said()}")


def ask(address):
    with urllib.request.urlopen(address, timeout=30) as answer:
        return json.load(answer)


def a_compilation():
    made = otlp.Ids(1)
    trace_id = made.trace()
    root = otlp.make_span(made, "torch_tensorrt.compile", trace_id, attributes={"torchspan.keep": True})
    spans = [root, otlp.make_span(made, "torch_tensorrt.convert", trace_id, parent=root)]
    for span in spans:  # backends search the last hour
        span.start_time_unix_nano = time.time_ns()
        span.end_time_unix_nano = span.start_time_unix_nano + otlp.MS
    return spans


def complaints(started):
    log = started.output.read_text(encoding="utf-8").splitlines()
    return [line for line in log if "\twarn\t" in line or "\terror\t" in line]


def in_prometheus(machine):
    """Whether the metrics of the two spans arrive, the Collector's own too, and the alerts are loaded."""
    api = machine.at("PROMETHEUS_PORT")
    scraped.query(api, 'traces_span_metrics_calls_total{span_name="torch_tensorrt.compile"} == 1')
    scraped.query(
        api,
        "otelcol_process_uptime_seconds_total > 0 or otelcol_process_uptime_seconds > 0 or otelcol_process_uptime > 0",
    )
    (group, *_) = ask(f"{api}/api/v1/rules")["data"]["groups"]
    assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}
    return True


@pytest.mark.needs("otelcol-torchspan", "prometheus")
def test_the_programs_of_the_quick_look_run_with_its_files(tmp_path):
    # As the image's run-otelcol.sh and run-prometheus.sh start them, in the folder /otel-lgtm.
    service = SERVICES["quick-look.yaml", "lgtm"]
    machine = Machine(tmp_path, "quick-look.yaml", ("127.0.0.1",))
    of_collector = [
        "--config=file:/otel-lgtm/otelcol-config.yaml",
        *service["environment"]["OTELCOL_EXTRA_ARGS"].split(),
    ]
    of_prometheus = [
        *("--web.enable-remote-write-receiver", "--web.enable-otlp-receiver", "--enable-feature=exemplar-storage"),
        *("--storage.tsdb.path=/data/prometheus", "--config.file=/otel-lgtm/prometheus.yaml"),
        f"--web.listen-address=127.0.0.1:{machine.ports['PROMETHEUS_PORT']}",
    ]
    with Receiver() as tempo:
        assert service["environment"]["TORCHSPAN_OTLP_ENDPOINT"] == "http://127.0.0.1:4418"  # where its Tempo listens
        with (
            machine.run(
                "lgtm",
                program("otelcol-torchspan"),
                of_collector,
                machine.at("TORCHSPAN_HEALTH_PORT", "/ready"),  # what the image asks
                TORCHSPAN_OTLP_ENDPOINT=tempo.url,
                TORCHSPAN_METRICS_FLUSH="500ms",
            ) as collector,
            machine.run("lgtm", program("prometheus"), of_prometheus, machine.at("PROMETHEUS_PORT", "/-/ready")),
        ):
            otlp.send(machine.at("TORCHSPAN_HTTP_PORT"), a_compilation())
            tempo.wait_for(lambda found: len(found.spans()) == 2)
            assert in_prometheus(machine)
            assert complaints(collector) == []


@contextmanager
def stack(folder, **variables):
    """The Collector, Jaeger and Prometheus of stack.yaml. variables: more of the Collector's."""
    machine = Machine(folder, "stack.yaml", ("collector", "jaeger", "tempo"))
    commands = {service: each["command"] for (name, service), each in SERVICES.items() if "command" in each}
    at_prometheus = f"--web.listen-address=127.0.0.1:{machine.ports['PROMETHEUS_PORT']}"
    data = f"{machine.root('collector')}/var/lib/otelcol/torchspan"  # the default, on the volume
    with (
        machine.run(
            "jaeger",
            program("jaeger"),
            commands["jaeger"],
            machine.at("JAEGER_HEALTH_PORT", "/status"),
            JAEGER_LISTEN="127.0.0.1",
        ),
        machine.run(
            "prometheus",
            program("prometheus"),
            [*commands["prometheus"], at_prometheus],
            machine.at("PROMETHEUS_PORT", "/-/ready"),
        ),
        machine.run(
            "collector",
            program("otelcol-torchspan"),
            commands["collector"],
            machine.at("TORCHSPAN_HEALTH_PORT"),
            TORCHSPAN_DATA=data,
            TORCHSPAN_METRICS_FLUSH="500ms",
            **variables,
        ) as collector,
    ):
        yield machine, collector


def is_in_jaeger(machine, trace_id):
    found = ask(machine.at("JAEGER_API_PORT", "/api/traces?service=app&limit=1"))["data"]
    return [len(each["spans"]) for each in found if each["traceID"] == trace_id] == [2]


@pytest.mark.needs("otelcol-torchspan", "jaeger", "prometheus")
def test_the_programs_of_the_stack_run_with_its_arguments_and_files(tmp_path):
    spans = a_compilation()
    with Receiver() as tempo, stack(tmp_path, TORCHSPAN_TEMPO_ENDPOINT=tempo.url) as (machine, collector):
        otlp.send(machine.at("TORCHSPAN_HTTP_PORT"), spans)
        otlp.wait_until(lambda: is_in_jaeger(machine, spans[0].trace_id.hex()))
        tempo.wait_for(lambda found: len(found.spans()) == 2)
        assert in_prometheus(machine)
        assert complaints(collector) == []


@pytest.mark.needs("otelcol-torchspan", "jaeger", "prometheus", "tempo")
def test_the_tempo_of_the_stack_runs_with_its_arguments_and_files(tmp_path):
    spans = a_compilation()
    with stack(tmp_path, TORCHSPAN_LISTEN="127.0.0.1") as (machine, _):
        command = SERVICES["stack.yaml", "tempo"]["command"]
        ready = machine.at("TEMPO_API_PORT", "/ready")
        with machine.run("tempo", program("tempo"), command, ready, TEMPO_LISTEN="127.0.0.1"):
            otlp.send(machine.at("TORCHSPAN_HTTP_PORT"), spans)
            address = machine.at("TEMPO_API_PORT", "/api/search?q=%7B%7D&limit=5")
            otlp.wait_until(lambda: ask(address)["traces"])
            (found,) = ask(address)["traces"]
            assert found["traceID"].zfill(32) == spans[0].trace_id.hex()
