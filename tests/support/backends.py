# SPDX-License-Identifier: Apache-2.0
"""The real programs behind torchspan, on loopback: the Collector, Jaeger, Prometheus and Tempo.

A test that runs one is marked with its name (`tests/support/needs.py`). Data and output are in temporary folders; the output
is shown where the test fails.
"""

import json
import re
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import backends
import running
import services
from support.needs import program

CONFIGURATIONS = services.CONFIGURATIONS

_HANDLER_S = 0.3
"""Seconds. The Collector handles SIGTERM from a moment after it is ready (`Run` of its `otelcol/collector.go`); before, it dies of it."""

_LEVEL = re.compile(r"^\S+\t(\w+)\t")


@dataclass
class Collector:
    """A Collector that runs.

    grpc: host:port. http, metrics, own_metrics: addresses; the second is where Prometheus reads what programs measured. data:
    the folder of its queue.
    """

    grpc: str
    http: str
    metrics: str
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
        """The lines of its log at WARN or above, without their times; what is not a line of its log counts too."""
        found = [(line, _LEVEL.match(line)) for line in self.log()]
        return [line.split("\t", 1)[-1] for line, level in found if level is None or level[1] not in {"debug", "info"}]

    def stop(self):
        """End it as a service manager does (SIGTERM). Returns the exit status."""
        time.sleep(_HANDLER_S)
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
        (nothing,) = running.free_ports(1)
        data = Path(data) if data else folder / "data"
        variables = {
            "TORCHSPAN_OTLP_ENDPOINT": f"http://127.0.0.1:{nothing}",
            "TORCHSPAN_DATA": str(data),
            **(environment or {}),
        }
        files = [_written(layer, folder / f"layer-{number}.yaml") for number, layer in enumerate(layers)]
        with _run(services.Collector, folder, files, wait=wait, **variables) as (started, ports):
            of = {name.split("_")[1].lower(): port for name, port in ports.items()}
            yield Collector(
                f"127.0.0.1:{of['grpc']}",
                f"http://127.0.0.1:{of['http']}",
                f"http://127.0.0.1:{of['metrics']}/metrics",
                f"http://127.0.0.1:{of['self']}/metrics",
                data,
                of,
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


@contextmanager
def jaeger(**ports):
    """A Jaeger that keeps traces in memory, or the one whose address was given. ports: JAEGER_OTLP_PORT and so on."""
    used = program("jaeger")
    if backends.is_address(used):
        if ports:
            raise LookupError("the test starts jaeger on a port of its own: TORCHSPAN_TEST_JAEGER takes a path")
        yield Backend(*backends.addresses(used))
        return
    variables = {name: str(port) for name, port in ports.items()}
    with _folder("jaeger") as folder, _run(services.Jaeger, folder, **variables) as (started, of):
        yield Backend(
            f"http://127.0.0.1:{of['JAEGER_API_PORT']}", f"http://127.0.0.1:{of['JAEGER_OTLP_PORT']}", started
        )


@contextmanager
def prometheus(config, *options):
    """A Prometheus with a configuration (a dict, or the path of a file) and exemplars, started with `options` besides."""
    if backends.is_address(program("prometheus")):
        raise LookupError(
            "prometheus is started with the configuration of the test: TORCHSPAN_TEST_PROMETHEUS takes a path"
        )
    with _folder("prometheus") as folder:
        config = _written(config, folder / "of-test.yml")
        with _run(services.Prometheus, folder, config, *options) as (started, of):
            api = f"http://127.0.0.1:{of['PROMETHEUS_PORT']}"
            yield Backend(api, f"{api}/api/v1/otlp", started)


@contextmanager
def tempo():
    """A Tempo 3 that makes spans searchable within seconds, or the one whose address was given."""
    used = program("tempo")
    if backends.is_address(used):
        yield Backend(*backends.addresses(used))
        return
    with _folder("tempo") as folder, _run(services.Tempo, folder, TEMPO_TRACE_IDLE="1s") as (started, of):
        yield Backend(f"http://127.0.0.1:{of['TEMPO_API_PORT']}", f"http://127.0.0.1:{of['TEMPO_OTLP_PORT']}", started)


def _written(config, path):
    """The path of a configuration; a dict is written to `path` first."""
    if not isinstance(config, dict):
        return config
    path.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    return path


@contextmanager
def _folder(name):
    with tempfile.TemporaryDirectory(prefix=f"torchspan-{name}-") as folder:
        yield Path(folder)


@contextmanager
def _run(kind, folder, *arguments, wait=True, **variables):
    """A service that was started, and its ports: those in the variables, and free ones."""
    free = dict(zip(kind.PORTS, running.free_ports(len(kind.PORTS)), strict=True))
    ports = {name: int(variables.get(name, port)) for name, port in free.items()}
    started = kind(program(kind.program), folder, ports, *arguments).start(**variables)
    try:
        if wait:
            started.wait_until_ready()
        yield started, ports
    finally:
        started.stop(kind.STOP_S)
        print(f"--- what {kind.program} said\n{started.said()}")
