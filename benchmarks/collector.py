# SPDX-License-Identifier: Apache-2.0
"""What a fleet has to plan for: the figures of docs/how-to/deploying.md. Not part of `make bench`: it runs the programs of `make backends`.

`python benchmarks/collector.py` measures all, with names of parts (`throughput`, `window`, `queue`, `latency`, `compilation`) those.

The load is traces of five spans as a server sends them: a request with four runs of an engine, 500 spans a request of OTLP. What a
Collector can do is said per core, from the processor time that it used, so that a busy machine changes the figures by a third at most.
"""

import argparse
import http.client
import json
import os
import random
import re
import statistics
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from sink import sink
from table import NO_TARGET, Row, write

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

import backends  # noqa: E402
import running  # noqa: E402
import services  # noqa: E402
from support import otlp, scraped  # noqa: E402

SPANS_OF_TRACE, TRACES_OF_REQUEST = 5, 100
SPANS_OF_REQUEST = SPANS_OF_TRACE * TRACES_OF_REQUEST
DECIDED = "otelcol_processor_tail_sampling_global_count_traces_sampled"
ROOMY = {"TORCHSPAN_MEMORY_MIB": "8192"}


# --- the load -----------------------------------------------------------------------------------------------------


class Load:
    """Requests of OTLP as bytes, all of one size, each with trace ids of its own."""

    def __init__(self, seed=1):
        self._random = random.Random(seed)
        made = otlp.Ids(seed)
        marks = [made.trace() for _ in range(TRACES_OF_REQUEST)]
        body = otlp.request([span for mark in marks for span in a_request(made, mark)]).SerializeToString()
        self._pieces = re.split(b"|".join(re.escape(mark) for mark in marks), body)
        self.span_bytes = len(body) / SPANS_OF_REQUEST

    def request(self):
        """A request, as bytes."""
        ids = (self._random.randbytes(16) for _ in range(TRACES_OF_REQUEST))
        by_trace = [each for each in ids for _ in range(SPANS_OF_TRACE)]
        parts = [part for pair in zip(self._pieces, [*by_trace, b""], strict=True) for part in pair]
        return b"".join(parts)

    def send_grpc(self, address, spans):
        """Send so many spans by OTLP/gRPC."""
        with grpc.insecure_channel(address) as channel:
            export = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
            for _ in range(spans // SPANS_OF_REQUEST):
                export(self.request(), timeout=60)

    def send(self, port, spans):
        """Send so many spans by OTLP/HTTP, each request as often as it takes until it is accepted."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(spans // SPANS_OF_REQUEST):
            body = self.request()
            while True:
                connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
                answer = connection.getresponse()
                answer.read()
                if answer.status == 200:
                    break
                time.sleep(0.05)
        connection.close()


def a_request(made, trace_id):
    """The spans of a request that runs an engine four times, with the attributes that they have."""
    root = otlp.make_span(
        made,
        "POST /predict",
        trace_id,
        duration_ms=20,
        attributes={
            "http.request.method": "POST",
            "http.route": "/predict",
            "http.response.status_code": 200,
            "url.path": "/predict",
            "server.address": "app",
            "user_agent.original": "client/1.0",
        },
    )
    root.kind = Span.SPAN_KIND_SERVER
    run = {
        "torch_tensorrt.engine.name": "_run_on_acc_0",
        "torch.inputs.shapes": ["[8, 3, 224, 224]"],
        "torch.inputs.dtypes": ["float32"],
        "tensorrt.engine.id": "9f1c7ccb675b6ec2",
    }
    runs = [
        otlp.make_span(made, "torch_tensorrt.execute", trace_id, parent=root, duration_ms=2, attributes=run)
        for _ in range(SPANS_OF_TRACE - 1)
    ]
    for span in runs:
        span.links.add(trace_id=made.trace(), span_id=made.span(), flags=256)
    return [root, *runs]


# --- the programs -------------------------------------------------------------------------------------------------


class Started:
    """A Collector that runs. ports: variable → port."""

    def __init__(self, process, ports, folder):
        self._process, self.ports, self.folder = process, ports, folder
        self.http = ports["TORCHSPAN_HTTP_PORT"]
        self.grpc = f"127.0.0.1:{ports['TORCHSPAN_GRPC_PORT']}"
        self._own = f"http://127.0.0.1:{ports['TORCHSPAN_SELF_PORT']}/metrics"

    def processor_s(self):
        """Seconds of processor time that it used so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self):
        """What it has in memory now."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def wait_for(self, name, number, **labels):
        """Until this metric of its own is so much."""
        return scraped.wait_for(self._own, lambda found: scraped.total(found, name, **labels) >= number, timeout_s=300)

    def own(self, name, **labels):
        """A metric of its own."""
        return scraped.total(scraped.read(self._own), name, **labels)


@contextmanager
def started(kind, *arguments, **variables):
    """A service on free ports with a folder of its own: what runs, its ports, the folder."""
    found = backends.BY_NAME[kind.program].found()
    if found is None:
        raise SystemExit(f"{kind.program} is not here; {backends.BY_NAME[kind.program].how_to_get}")
    with tempfile.TemporaryDirectory(prefix="torchspan-bench-") as name:
        ports = dict(zip(kind.PORTS, running.free_ports(len(kind.PORTS)), strict=True))
        runs = kind(found, Path(name), ports, *arguments).start(**variables)
        try:
            runs.wait_until_ready()
            yield runs, ports, Path(name)
        finally:
            runs.kill()


@contextmanager
def collector(*layers, **variables):
    """A Collector on one core."""
    defaults = {"TORCHSPAN_OTLP_ENDPOINT": "http://127.0.0.1:9", "GOMAXPROCS": "1", **ROOMY}
    with started(services.Collector, layers, **{**defaults, **variables}) as (runs, ports, folder):
        yield Started(runs.process, ports, folder)


def second_tier(*collectors):
    """Variables of a first tier in front of these."""
    return {"TORCHSPAN_SECOND_TIER": f"{{static: {{hostnames: [{', '.join(each.grpc for each in collectors)}]}}}}"}


# --- the parts ----------------------------------------------------------------------------------------------------

LAYERS = {
    "base": ("base.yaml",),
    "base, metrics": ("base.yaml", "metrics.yaml"),
    "base, sampling": ("base.yaml", "sampling.yaml"),
    "base, sampling, metrics": ("base.yaml", "sampling.yaml", "metrics.yaml"),
    "base, sampling, metrics, redaction": ("base.yaml", "sampling.yaml", "metrics.yaml", "redaction.yaml"),
}


def throughput(spans=200_000):
    """Rows: spans a second that one core takes, by layers, and the memory at the end."""
    load = Load()
    yield Row("the load", f"{load.span_bytes:.0f} B a span", "", NO_TARGET)
    with sink() as backend:
        for name, layers in LAYERS.items():
            with collector(*layers, TORCHSPAN_OTLP_ENDPOINT=backend) as measured:
                yield _taken(name, measured, spans, partial(load.send, measured.http))
        with collector("base.yaml", TORCHSPAN_OTLP_ENDPOINT=backend) as measured:
            yield _taken("base, received over gRPC", measured, spans, partial(load.send_grpc, measured.grpc))
        with (
            collector("base.yaml", TORCHSPAN_OTLP_ENDPOINT=backend) as behind,
            collector("gateway/first-tier.yaml", **second_tier(behind)) as first,
        ):
            yield _taken("first tier, in front of one", first, spans, partial(load.send, first.http))


def _taken(name, measured, spans, send):
    send(SPANS_OF_REQUEST)  # connections, buffers
    before_s, begin_s = measured.processor_s(), time.perf_counter()
    send(spans)
    is_sampled = "sampling" in name
    if is_sampled:
        measured.wait_for(DECIDED, (spans + SPANS_OF_REQUEST) // SPANS_OF_TRACE)
    else:
        measured.wait_for("otelcol_exporter_sent_spans", spans + SPANS_OF_REQUEST)
    used_s, took_s = measured.processor_s() - before_s, time.perf_counter() - begin_s
    figure = f"{spans / used_s:,.0f} spans/s a core, {measured.memory_mib():.0f} MiB"
    return Row(f"{name} ({spans:,} spans in {took_s:.0f} s)", figure, "", NO_TARGET)


def window(spans=(100_000, 200_000, 400_000)):
    """Rows: memory of traces that wait for their decision."""
    load = Load()
    waiting = {"TORCHSPAN_DECISION_WAIT": "1h", "TORCHSPAN_TRACES": "1000000"}
    for count in spans:
        with collector("base.yaml", "sampling.yaml", **waiting) as measured:
            idle = measured.memory_mib()
            load.send(measured.http, count)
            time.sleep(5)  # garbage of what was received
            grown = measured.memory_mib() - idle
            heap = measured.own("otelcol_process_runtime_heap_alloc_bytes") / 2**20
        per_span = grown * 2**20 / count / 1024
        yield Row(
            f"{count:,} spans in {count // SPANS_OF_TRACE:,} traces wait",
            f"{grown:.0f} MiB ({per_span:.1f} KiB a span), of them {heap:.0f} MiB in use",
            "",
            NO_TARGET,
        )


def queue(spans=100_000):
    """Rows: the disk that the queue takes while the backend is down, and how long it takes to send it when it is up again."""
    load = Load()
    (port,) = running.free_ports(1)
    with collector("base.yaml", TORCHSPAN_OTLP_ENDPOINT=f"http://127.0.0.1:{port}") as measured:
        load.send(measured.http, spans)
        yield _on_disk("base", measured, spans)
        begin_s = time.perf_counter()
        with sink(port):
            measured.wait_for("otelcol_exporter_sent_spans", spans)
            took_s = time.perf_counter() - begin_s
        yield Row(f"base: {spans:,} spans, backend up again", f"all sent after {took_s:.0f} s", "", NO_TARGET)
    everything = {"TORCHSPAN_KEEP_PERCENT": "100", "TORCHSPAN_DECISION_WAIT": "1s"}
    with collector("base.yaml", "sampling.yaml", **everything) as measured:
        sent = spans // 5
        load.send(measured.http, sent)
        measured.wait_for(DECIDED, sent // SPANS_OF_TRACE)
        yield _on_disk("base, sampling that keeps all", measured, sent)


def _on_disk(name, measured, spans):
    time.sleep(2)
    bytes_ = sum(each.stat().st_blocks * 512 for each in (measured.folder / "queue").rglob("*") if each.is_file())
    size, room = measured.own("otelcol_exporter_queue_size"), measured.own("otelcol_exporter_queue_capacity")
    lost = measured.own("otelcol_exporter_enqueue_failed_spans")
    figure = f"{bytes_ / spans:.0f} B a span; queue {size:,.0f} of {room:,.0f}, {lost:,.0f} spans refused"
    return Row(f"{name}: {spans:,} spans, backend down", figure, "", NO_TARGET)


def latency(rounds=20):
    """Rows: from the end of a span, exported at once, until Jaeger has its trace."""
    with started(services.Jaeger) as (_, jaeger, _):
        to_jaeger = {"TORCHSPAN_OTLP_ENDPOINT": f"http://127.0.0.1:{jaeger['JAEGER_OTLP_PORT']}"}
        api = f"http://127.0.0.1:{jaeger['JAEGER_API_PORT']}"
        with collector("base.yaml", **to_jaeger) as one:
            yield _arrives("base", one, api, rounds)
        with collector("base.yaml", "sampling.yaml", **to_jaeger) as one:
            yield _arrives("base, sampling", one, api, 3)
        with ExitStack() as held:
            behind = [held.enter_context(collector("base.yaml", "sampling.yaml", **to_jaeger)) for _ in range(2)]
            first = held.enter_context(collector("gateway/first-tier.yaml", **second_tier(*behind)))
            yield _arrives("two tiers, sampling", first, api, 3)


def _arrives(name, sender, api, rounds):
    made, took_s = otlp.Ids(name), []
    for _ in range(rounds):
        span = otlp.make_span(made, "torch_tensorrt.compile", made.trace(), attributes={"torchspan.keep": True})
        begin_s = time.perf_counter()
        otlp.send(f"http://127.0.0.1:{sender.http}", [span])
        while not _has(api, span.trace_id.hex()):
            time.sleep(0.02)
        took_s.append(time.perf_counter() - begin_s)
    figure = f"{statistics.median(took_s):.2f} s, at most {max(took_s):.2f} s"
    return Row(f"{name}: export to Jaeger, {rounds} traces", figure, "", NO_TARGET)


def _has(api, trace_id):
    try:
        with urllib.request.urlopen(f"{api}/api/traces/{trace_id}", timeout=10) as answer:
            return bool(json.load(answer)["data"])
    except urllib.error.HTTPError:
        return False


def compilation():
    """Rows: spans, bytes and series of a compilation of a BERT of two layers, and of a run of a small model."""
    from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from bert import compiler
    from torchspan import TorchspanInstrumentor

    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(shutdown_on_exit=False), MeterProvider([reader], shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    TorchspanInstrumentor().instrument(tracer_provider=tracers, meter_provider=meters, heartbeat="0")
    compile_once = compiler()
    exporter.clear()
    compile_once()
    found = exporter.get_finished_spans()
    message: ExportTraceServiceRequest = encode_spans(found)
    yield Row(
        "a compilation of a BERT of two layers, one engine",
        f"{len(found)} spans, {message.ByteSize() / 1024:.1f} KiB",
        "",
        NO_TARGET,
    )
    measured = encode_metrics(reader.get_metrics_data())
    yield Row(
        "its process's metrics, at each export",
        f"{_series(measured)} series in Prometheus, {measured.ByteSize() / 1024:.1f} KiB",
        "",
        NO_TARGET,
    )
    TorchspanInstrumentor().uninstrument()


def _series(message):
    """How many series Prometheus makes of an export."""
    count = 0
    for of_resource in message.resource_metrics:
        for of_scope in of_resource.scope_metrics:
            for metric in of_scope.metrics:
                points = getattr(metric, metric.WhichOneof("data")).data_points
                count += sum(len(each.bucket_counts) + 2 if hasattr(each, "bucket_counts") else 1 for each in points)
    return count


PARTS = {each.__name__: each for each in (throughput, window, queue, latency, compilation)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)} (default: all)")
    names = parser.parse_args().parts or list(PARTS)
    for name in names:
        write(PARTS[name].__doc__.partition("\n")[0].removeprefix("Rows: "), list(PARTS[name]()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
