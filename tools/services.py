# SPDX-License-Identifier: Apache-2.0
"""The programs of `collector-config/local`: how each is started, on which ports. `make up` and the tests start them alike."""

import json
import shutil
from pathlib import Path
from typing import ClassVar

import running

CONFIGURATIONS = Path(__file__).resolve().parents[1] / "collector-config"
LOCAL = CONFIGURATIONS / "local"


class Service:
    """A program that listens on loopback ports. path: of the program. folder: for its data, there already. ports: variable → port.

    program: its name in `tools/backends.py`. PORTS: environment variable → (default, what listens there). READY: variable of
    the port, and path, that answer 200 once it can be used. STOP_S: how long it may take to end.
    """

    program: ClassVar[str]
    PORTS: ClassVar[dict[str, tuple[int, str]]]
    READY: ClassVar[tuple[str, str]]
    STOP_S = running.STOP_S

    def __init__(self, path, folder, ports):
        self.path, self.folder, self.ports = path, folder, ports

    def command(self):
        """What starts it."""
        raise NotImplementedError

    def environment(self):
        """Variables that it reads."""
        return {name: str(port) for name, port in self.ports.items()}

    def start(self, **variables):
        """Start it, and return without waiting for it. variables: more of its environment."""
        variable, path = self.READY
        return running.Running(
            self.program,
            self.command(),
            self.folder / f"{self.program}.log",
            {**self.environment(), **variables},
            f"http://127.0.0.1:{self.ports[variable]}{path}",
        )


class Collector(Service):
    """The Collector, with layers: names of files in `collector-config`, or paths."""

    program = "otelcol-torchspan"
    PORTS: ClassVar = {
        "TORCHSPAN_GRPC_PORT": (4317, "spans and metrics of programs, OTLP/gRPC"),
        "TORCHSPAN_HTTP_PORT": (4318, "spans and metrics of programs, OTLP/HTTP"),
        "TORCHSPAN_METRICS_PORT": (8889, "metrics of programs, for Prometheus"),
        "TORCHSPAN_SELF_PORT": (8888, "the Collector's own metrics"),
        "TORCHSPAN_HEALTH_PORT": (13133, "the Collector's health"),
    }
    READY = ("TORCHSPAN_HEALTH_PORT", "/")

    def __init__(self, path, folder, ports, layers):
        super().__init__(path, folder, ports)
        self.layers = layers

    def command(self):
        return [self.path, *(part for layer in self.layers for part in ("--config", CONFIGURATIONS / layer))]

    def environment(self):
        return {"TORCHSPAN_DATA": str(self.folder / "queue"), **super().environment()}


class Jaeger(Service):
    """Jaeger 2, with traces in memory."""

    program = "jaeger"
    PORTS: ClassVar = {
        "JAEGER_API_PORT": (16686, "Jaeger's pages and API"),
        "JAEGER_GRPC_PORT": (16685, "Jaeger's API, gRPC"),
        "JAEGER_OTLP_PORT": (14318, "spans for Jaeger"),
        "JAEGER_HEALTH_PORT": (14133, "Jaeger's health"),
    }
    READY = ("JAEGER_HEALTH_PORT", "/status")

    def command(self):
        return [self.path, "--config", LOCAL / "jaeger.yaml"]

    def environment(self):
        # Else it traces its own queries, and sends them to port 4317: to the Collector, and back to itself.
        return {"OTEL_TRACES_SAMPLER": "always_off", **super().environment()}


class Prometheus(Service):
    """Prometheus, with exemplars. config: path of its configuration. options: more of its own."""

    program = "prometheus"
    PORTS: ClassVar = {"PROMETHEUS_PORT": (9090, "Prometheus's page and API")}
    READY = ("PROMETHEUS_PORT", "/-/ready")

    def __init__(self, path, folder, ports, config, *options):
        super().__init__(path, folder, ports)
        self.config, self.options = config, options

    def command(self):
        return [
            self.path,
            f"--config.file={self.config}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.ports['PROMETHEUS_PORT']}",
            "--enable-feature=exemplar-storage",
            *self.options,
        ]


class Tempo(Service):
    """Tempo 3, which makes spans searchable within seconds."""

    program = "tempo"
    PORTS: ClassVar = {
        "TEMPO_API_PORT": (3200, "Tempo's API"),
        "TEMPO_GRPC_PORT": (9096, "between Tempo's parts"),
        "TEMPO_OTLP_PORT": (14418, "spans for Tempo"),
    }
    READY = ("TEMPO_API_PORT", "/ready")
    STOP_S = 0.1  # asked to end it takes 30 s, to write down what goes with its folder

    def command(self):
        return [self.path, f"-config.file={LOCAL / 'tempo.yaml'}", "-config.expand-env=true"]

    def environment(self):
        return {"TEMPO_DATA": str(self.folder / "data"), **super().environment()}


def prometheus_configuration(folder, collector_ports):
    """Write the configuration that has Prometheus read a Collector, and return its path. collector_ports: variable → port."""
    for file, variable in (("metrics", "TORCHSPAN_METRICS_PORT"), ("own-metrics", "TORCHSPAN_SELF_PORT")):
        targets = [{"targets": [f"127.0.0.1:{collector_ports[variable]}"]}]
        (folder / f"{file}.json").write_text(json.dumps(targets), encoding="utf-8")
    shutil.copy(CONFIGURATIONS / "prometheus" / "alerts.yaml", folder)
    return shutil.copy(LOCAL / "prometheus.yml", folder)
