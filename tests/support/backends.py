# SPDX-License-Identifier: Apache-2.0
"""The real programs behind torchspan, on loopback: the Collector, Jaeger, Prometheus and Tempo.

A test that runs one is marked with its name (`tests/support/needs.py`). Data and output are in temporary folders; the output
is shown where the test fails.
"""

import json
import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import backends
import running
from support.needs import program

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATIONS = ROOT / "collector-config"

_LEVEL = re.compile(r"^\S+\t(\w+)\t")


@dataclass
class Collector:
    """A Collector that runs. `grpc` is host:port; `http` and `own_metrics` are addresses; `data` is the folder of its queue."""

    grpc: str
    http: str
    own_metrics: str
    data: Path
    ports: dict[str, int]
    _running: running.Running = field(repr=False)

    @property
    def process(self):
        return self._running.process

    def log(self):
        """The lines of its log."""
        return self._running.output.read_text(encoding="utf-8").splitlines()

    def complaints(self):
        """The lines of its log at WARN or above, without their times; what is no line of its log counts too."""
        found = [(line, _LEVEL.match(line)) for line in self.log()]
        return [line.split("\t", 1)[-1] for line, level in found if level is None or level[1] not in {"debug", "info"}]

    def stop(self):
        """End it as a service manager does (SIGTERM). Returns the exit status."""
        return self._running.stop()

    def kill(self):
        """End it at once, as kill -9 does."""
        self._running.kill()


@contextmanager
def collector(*layers, environment=None, data=None, wait=True):
    """A Collector with configurations, each a file's name in `collector-config`, a path, or a dict.

    environment: variables, over free ports for all that `base.yaml` listens on, and TORCHSPAN_OTLP_ENDPOINT, where traces go
    (default: a port on which no program listens). data: folder of the queue; a temporary one where it is None. wait: until it
    is ready; without, it may be one that ends at once.
    """
    with _folder("collector") as folder:
        kinds = ("GRPC", "HTTP", "HEALTH", "SELF", "METRICS")
        *listening, nothing = running.free_ports(len(kinds) + 1)
        data = Path(data) if data else folder / "data"
        variables = {
            **{f"TORCHSPAN_{kind}_PORT": str(port) for kind, port in zip(kinds, listening, strict=True)},
            "TORCHSPAN_OTLP_ENDPOINT": f"http://127.0.0.1:{nothing}",
            "TORCHSPAN_DATA": str(data),
            **(environment or {}),
        }
        ports = {kind.lower(): int(variables[f"TORCHSPAN_{kind}_PORT"]) for kind in kinds}
        command = [program("otelcol-torchspan")]
        for number, layer in enumerate(layers):
            if isinstance(layer, dict):
                path = folder / f"layer-{number}.yaml"
                path.write_text(json.dumps(layer), encoding="utf-8")
            else:
                path = CONFIGURATIONS / layer
            command += ["--config", path]
        health = f"http://127.0.0.1:{ports['health']}/"
        with _run("collector", command, folder, variables, health, wait=wait) as started:
            yield Collector(
                f"127.0.0.1:{ports['grpc']}",
                f"http://127.0.0.1:{ports['http']}",
                f"http://127.0.0.1:{ports['self']}/metrics",
                data,
                ports,
                started,
            )


@dataclass(frozen=True)
class Backend:
    """A backend that runs. `api` and `otlp` are addresses, without a path; `stop` and `kill` end it where the tests started it."""

    api: str
    otlp: str
    _running: running.Running | None = field(default=None, repr=False)

    def stop(self):
        return self._running.stop()

    def kill(self):
        self._running.kill()


JAEGER = {
    "service": {
        "extensions": ["jaeger_storage", "jaeger_query", "healthcheckv2"],
        "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]}},
        "telemetry": {"metrics": {"level": "none"}},
    },
    "extensions": {
        "jaeger_query": {
            "storage": {"traces": "memory"},
            "http": {"endpoint": "127.0.0.1:${env:JAEGER_API_PORT}"},
            "grpc": {"endpoint": "127.0.0.1:${env:JAEGER_API_GRPC_PORT}"},
        },
        "jaeger_storage": {"backends": {"memory": {"memory": {"max_traces": 100000}}}},
        "healthcheckv2": {"use_v2": True, "http": {"endpoint": "127.0.0.1:${env:JAEGER_HEALTH_PORT}"}},
    },
    "receivers": {"otlp": {"protocols": {"http": {"endpoint": "127.0.0.1:${env:JAEGER_OTLP_PORT}"}}}},
    "exporters": {"jaeger_storage_exporter": {"trace_storage": "memory"}},
}


@contextmanager
def jaeger(*, ports=None):
    """A Jaeger that keeps traces in memory, or the one whose address was given. ports: API and OTLP/HTTP, both free otherwise."""
    used = program("jaeger")
    if backends.is_address(used):
        yield Backend(*backends.addresses(used))
        return
    with _folder("jaeger") as folder:
        api, otlp, grpc, health = (*(ports or running.free_ports(2)), *running.free_ports(2))
        variables = {
            "JAEGER_API_PORT": str(api),
            "JAEGER_OTLP_PORT": str(otlp),
            "JAEGER_API_GRPC_PORT": str(grpc),
            "JAEGER_HEALTH_PORT": str(health),
        }
        config = folder / "jaeger.yaml"
        config.write_text(json.dumps(JAEGER), encoding="utf-8")
        ready = f"http://127.0.0.1:{health}/status"
        with _run("jaeger", [used, "--config", config], folder, variables, ready) as started:
            yield Backend(f"http://127.0.0.1:{api}", f"http://127.0.0.1:{otlp}", started)


@contextmanager
def prometheus(config, *options):
    """A Prometheus with a configuration (a dict, or the path of a file) and exemplars, started with `options` besides."""
    used = program("prometheus")
    if backends.is_address(used):
        raise LookupError(
            "prometheus is started with the configuration of the test: TORCHSPAN_TEST_PROMETHEUS takes a path"
        )
    with _folder("prometheus") as folder:
        (port,) = running.free_ports(1)
        if isinstance(config, dict):
            path = folder / "prometheus.yml"
            path.write_text(json.dumps(config), encoding="utf-8")
            config = path
        api = f"http://127.0.0.1:{port}"
        command = [used, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
        command += [f"--web.listen-address=127.0.0.1:{port}", "--enable-feature=exemplar-storage", *options]
        with _run("prometheus", command, folder, {}, f"{api}/-/ready") as started:
            yield Backend(api, f"{api}/api/v1/otlp", started)


def tempo_configuration(folder, api, grpc, otlp):
    """Of a Tempo 3 that makes spans searchable within seconds. folder: of its data; the others: ports."""
    return {
        "stream_over_http_enabled": True,
        "server": {
            "http_listen_address": "127.0.0.1",
            "http_listen_port": api,
            "grpc_listen_address": "127.0.0.1",
            "grpc_listen_port": grpc,
        },
        "distributor": {"receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{otlp}"}}}}},
        "memberlist": {"bind_addr": ["127.0.0.1"]},
        "querier": {"frontend_worker": {"frontend_address": f"127.0.0.1:{grpc}"}},
        "backend_worker": {"backend_scheduler_addr": f"127.0.0.1:{grpc}"},
        "backend_scheduler": {"local_work_path": f"{folder}/scheduler"},
        "live_store": {
            "max_trace_idle": "1s",
            "max_trace_live": "2s",
            "flush_check_period": "1s",
            "max_block_duration": "1s",
            "wal": {"path": f"{folder}/live"},
            "shutdown_marker_dir": f"{folder}/marker",
        },
        "storage": {
            "trace": {
                "backend": "local",
                "wal": {"path": f"{folder}/wal"},
                "local": {"path": f"{folder}/blocks"},
                "blocklist_poll": "1s",
            }
        },
        "query_frontend": {"query_end_cutoff": "1s"},  # the default hides the newest 30 s
        "usage_report": {"reporting_enabled": False},
    }


@contextmanager
def tempo():
    """A Tempo 3, or the one whose address was given."""
    used = program("tempo")
    if backends.is_address(used):
        yield Backend(*backends.addresses(used))
        return
    with _folder("tempo") as folder:
        api, grpc, otlp = running.free_ports(3)
        config = folder / "tempo.yaml"
        config.write_text(json.dumps(tempo_configuration(folder, api, grpc, otlp)), encoding="utf-8")
        command = [used, f"-config.file={config}"]
        # Asked to end, it takes 30 s.
        with _run("tempo", command, folder, {}, f"http://127.0.0.1:{api}/ready", stop=running.Running.kill) as started:
            yield Backend(f"http://127.0.0.1:{api}", f"http://127.0.0.1:{otlp}", started)


@contextmanager
def _folder(name):
    with tempfile.TemporaryDirectory(prefix=f"torchspan-{name}-") as folder:
        yield Path(folder)


@contextmanager
def _run(name, command, folder, environment, ready_url, *, wait=True, stop=running.Running.stop):
    started = running.Running(name, command, folder / f"{name}.log", environment, ready_url)
    try:
        if wait:
            started.wait_until_ready()
        yield started
    finally:
        stop(started)
        print(f"--- what {name} said\n{started.said()}")
