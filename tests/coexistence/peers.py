# SPDX-License-Identifier: Apache-2.0
"""The other tools: how each is set up in a program, and what it is asked for.

`set_up`, `around` and `finish` run in the program, the rest in the process that compares. What a tool needs is imported when it is set up.
"""

import contextlib
import json
import re
import subprocess
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent


def read(path):
    """The text of a file."""
    return path.read_text(encoding="utf-8")


SERVING = "Call `torchspan.instrument()` in the module of the application. [Serving](../how-to/serving.md) has the end of workers."


class Peer:
    """A tool that a program sets up.

    title: its name on the page, which has the text of the class as what is compared. packages: what is installed on top of torchspan's environment.
    command: what starts the program, if the tool is a command; FOLDER in it is the folder of the run. sets_provider: whether the tool sets
    OpenTelemetry's provider. variables: of the environment. repeats: how often the tool has the work done. changes_outcomes: whether the work ends
    otherwise with the tool. to_know: what its users should know, for the page.
    """

    title = ""
    packages = ()
    command = ()
    variables: dict = {}
    sets_provider = False
    repeats = 1
    changes_outcomes = False
    to_know = ""

    def set_up(self, folder):
        """Enable the tool."""

    def around(self, folder):
        """What surrounds the work."""
        return contextlib.nullcontext()

    def finish(self, folder):
        """What the tool is asked for, if the program can tell."""
        return

    def asked(self, folder, python):
        """What the tool is asked for, after the program."""
        return json.loads(read(folder / "asked.json"))

    def around_torchspan(self, order):
        """Names of the tool's spans that torchspan's trees are below; None stands for trees below no span of the tool."""
        return {None}

    def disagreements(self, asked, rows):
        """Where the tool and the spans of torchspan contradict each other: sentences."""
        return []


class Logfire(Peer):
    """Its spans. torchspan's are below Logfire's span around the work."""

    title = "Logfire"
    packages = ("logfire",)
    sets_provider = True

    def set_up(self, folder):
        import logfire
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from spans_kept import Spans

        kept = SimpleSpanProcessor(Spans(folder / "spans.jsonl"))
        logfire.configure(send_to_logfire=False, console=False, additional_span_processors=[kept])

    def around(self, folder):
        import logfire

        return logfire.span("request")

    def around_torchspan(self, order):
        return {"request"}

    def asked(self, folder, python):
        return own_spans(folder)


class Datadog(Peer):
    """The spans that it would send, those of jinja2 among them. torchspan's are below Datadog's span around the work."""

    title = "Datadog, in its mode for OpenTelemetry"
    packages = ("ddtrace",)
    sets_provider = True
    variables = {
        "DD_TRACE_OTEL_ENABLED": "true",
        "DD_TRACE_STARTUP_LOGS": "false",
        "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    }
    to_know = (
        "Import `ddtrace.auto`, or use `ddtrace-run`, before `torchspan.instrument()`. ddtrace cannot replace OpenTelemetry's context once its API is "
        "imported, by torchspan or by any other library. Enabled later, it still receives torchspan's spans, but they are not below its own. "
        "`torchspan run` records nothing, and reports it: ddtrace's provider takes no processor for the file."
    )

    def set_up(self, folder):
        import ddtrace.auto  # noqa: F401 - sets ddtrace's provider when OpenTelemetry is imported
        import opentelemetry  # noqa: F401
        from ddtrace.internal.constants import SPAN_API_OTEL
        from ddtrace.trace import TraceFilter, tracer
        from spans_kept import Spans

        kept = Spans(folder / "spans.jsonl")

        class Keep(TraceFilter):
            def process_trace(self, spans):
                for span in spans:
                    is_of_otel = span._span_api == SPAN_API_OTEL
                    name, scope = (span.resource, "torchspan") if is_of_otel else (span.name, "datadog")
                    parent = f"{span.parent_id:016x}" if span.parent_id else None
                    kept.add(name, f"{span.span_id:016x}", parent, scope)

        tracer.configure(trace_processors=[Keep()])

    def around(self, folder):
        from ddtrace.trace import tracer

        return tracer.trace("request")

    def around_torchspan(self, order):
        return {"request"} if order.startswith("peer") else {None}

    def asked(self, folder, python):
        return own_spans(folder)


class Sentry(Peer):
    """A transaction with a span, and an error."""

    title = "Sentry"
    packages = ("sentry-sdk",)
    to_know = (
        "torchspan's spans go to OpenTelemetry's provider, and Sentry's to Sentry: neither has those of the other. Sentry's integration of "
        "OpenTelemetry was not tested."
    )

    def set_up(self, folder):
        import sentry_sdk
        from sentry_sdk.transport import Transport

        events = self._events = []

        class Keep(Transport):
            def capture_envelope(self, envelope):
                events.extend(item.payload.json for item in envelope.items if item.type in {"event", "transaction"})

        sentry_sdk.init(dsn="http://key@127.0.0.1:1/1", traces_sample_rate=1.0, transport=Keep)

    @contextlib.contextmanager
    def around(self, folder):
        import sentry_sdk

        with sentry_sdk.start_transaction(op="task", name="request"), sentry_sdk.start_span(op="work", name="work"):
            yield
            try:
                raise ValueError("of the program")
            except ValueError as error:
                sentry_sdk.capture_exception(error)

    def finish(self, folder):
        import sentry_sdk

        sentry_sdk.flush()
        return [
            {
                "type": event.get("type", "error"),
                "name": event.get("transaction"),
                "message": event.get("logentry", {}).get("message"),
                "spans": [[span["op"], span["description"]] for span in event.get("spans", ())],
                "errors": [[error["type"], error["value"]] for error in event.get("exception", {}).get("values", ())],
            }
            for event in self._events
        ]


class Contrib(Peer):
    """Spans of coroutines, and trace ids in log records. torchspan's spans are below the program's span around the work."""

    title = "OpenTelemetry's instrumentations of threading, asyncio and logging"
    packages = tuple(f"opentelemetry-instrumentation-{name}" for name in ("threading", "asyncio", "logging"))
    variables = {"OTEL_PYTHON_ASYNCIO_COROUTINE_NAMES_TO_TRACE": "call"}

    def set_up(self, folder):
        import logging

        from opentelemetry.instrumentation.asyncio import AsyncioInstrumentor
        from opentelemetry.instrumentation.logging import LoggingInstrumentor
        from opentelemetry.instrumentation.threading import ThreadingInstrumentor

        for instrumentor in (ThreadingInstrumentor(), AsyncioInstrumentor(), LoggingInstrumentor()):
            instrumentor.instrument()
        records = self._records = []

        class Keep(logging.Handler):
            def emit(self, record):
                records.append([record.getMessage(), getattr(record, "otelTraceID", "") not in {"", "0"}])

        logging.getLogger("work").addHandler(Keep())

    def around(self, folder):
        from opentelemetry import trace

        return trace.get_tracer("program").start_as_current_span("request")

    def around_torchspan(self, order):
        return {"request"}

    def finish(self, folder):
        return self._records

    def asked(self, folder, python):
        return {"records": super().asked(folder, python), "spans": own_spans(folder)}


class Memray(Peer):
    """The functions of the program that allocated memory."""

    title = "memray"
    packages = ("memray",)
    command = ("-m", "memray", "run", "--quiet", "--force", "--output", "FOLDER/memory.bin")
    to_know = "`torchspan run -- python -m memray run program.py`, or `torchspan.instrument()` in the program."

    def asked(self, folder, python):
        command = [python, HERE / "functions_in_memray.py", folder / "memory.bin", HERE / "work.py"]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


class Coverage(Peer):
    """The lines of the program that were executed."""

    title = "coverage"
    packages = ("coverage",)
    command = ("-m", "coverage", "run", "--data-file=FOLDER/coverage.data")
    to_know = "`torchspan run -- python -m coverage run program.py`, or `torchspan.instrument()` in the program."

    def asked(self, folder, python):
        command = [python, "-m", "coverage", "json", f"--data-file={folder}/coverage.data", "-q", "-o", "-"]
        output = subprocess.run(
            [*command, f"--include={HERE}/work.py"], check=True, capture_output=True, text=True, cwd=HERE
        )
        return next(iter(json.loads(output.stdout)["files"].values()))["executed_lines"]


class Profiler(Peer):
    """How often each operator ran."""

    title = "`torch.profiler`"

    def around(self, folder):
        from torch.profiler import ProfilerActivity, profile

        self._profile = profile(activities=[ProfilerActivity.CPU])
        return self._profile

    def finish(self, folder):
        return {event.key: event.count for event in self._profile.key_averages()}


class Tlparse(Peer):
    """The files of the report. Its compile ids and their outcomes are those of torchspan's spans."""

    title = "`TORCH_TRACE` with tlparse"
    packages = ("tlparse",)
    variables = {"TORCH_TRACE": "FOLDER/trace"}
    to_know = (
        "What tlparse calls an error has several values of `torch.compile.outcome`: `failed` raises an exception, and after `skipped`, `limit` and "
        "`fallen_back` the program runs eagerly."
    )

    def asked(self, folder, python):
        (log,) = (folder / "trace").iterdir()
        report = folder / "report"
        command = [Path(python).parent / "tlparse", log, "-o", report, "--no-browser", "--overwrite"]
        subprocess.run(command, check=True, capture_output=True)
        directory = json.loads(read(report / "compile_directory.json"))
        files = {
            name: sorted(artifact["url"].rpartition("/")[2] for artifact in compilation["artifacts"])
            for name, compilation in directory.items()
        }
        compile_ids = {found[1] for found in map(COMPILE_ID.fullmatch, files) if found}
        in_tree = {compile_id: status for status, compile_id in STATUS.findall(read(report / "index.html"))}
        ends = FAILURE.findall(read(report / "failures_and_restarts.html"))
        failed = {compile_id: "error" for compile_id, kind in ends if kind != "RestartAnalysis"}
        return {"files": files, "statuses": dict.fromkeys(sorted(compile_ids)) | in_tree | failed}

    def disagreements(self, asked, rows):
        outcomes = {
            row["torch.compile.id"]: row["torch.compile.outcome"] for row in rows if "torch.compile.outcome" in row
        }
        statuses = asked["statuses"]
        return [
            f"compilation {compile_id} is {statuses.get(compile_id)} in tlparse's report, and {outcomes.get(compile_id)} in spans"
            for compile_id in sorted({*statuses, *outcomes})
            if outcomes.get(compile_id) not in OUTCOMES.get(statuses.get(compile_id), ())
        ]


COMPILE_ID = re.compile(r"\[(\d+/\d+)(?:_\d+)?\]")
"""tlparse's name of a compilation. Each time that Dynamo starts one again it gets a number after `_`."""

STATUS = re.compile(r"class='status-(\w+)'>\[(\d+/\d+)\]</a>")
"""A compilation in the tree of stacks, whose color is its status."""

FAILURE = re.compile(r">\[(\d+/\d+)(?:_\d+)?\]</a>\s*</td>\s*<td>\s*(?:<pre>)?\s*(\w+)")
"""A compilation in the table of failures and restarts."""

OUTCOMES = {
    "ok": {"compiled"},
    "break": {"compiled"},
    "empty": {"skipped"},
    "error": {"skipped", "limit", "fallen_back", "failed"},
}
"""tlparse's status of a compilation -> values of `torch.compile.outcome`, which says more about errors."""


class Debugger(Peer):
    """The files that it writes."""

    title = "Torch-TensorRT's Debugger"

    def around(self, folder):
        from torch_tensorrt.dynamo import Debugger as Theirs

        return Theirs(logging_dir=str(folder / "debugger"), log_level="info")

    def asked(self, folder, python):
        return sorted(str(path.relative_to(folder)) for path in (folder / "debugger").rglob("*"))


class Stance(Peer):
    """What is refused, and in which words."""

    title = "`torch.compiler.set_stance`"
    changes_outcomes = True
    to_know = "The stance here is `fail_on_recompile`."

    def around(self, folder):
        import torch

        return torch.compiler.set_stance("fail_on_recompile")


class Provider(Peer):
    """torchspan's spans, from the provider's start in the middle of the program to its shutdown before the end."""

    title = "A tracer provider of OpenTelemetry's SDK that is set late and shut down early"
    sets_provider = True

    @contextlib.contextmanager
    def around(self, folder):
        from program import set_provider

        set_provider(folder)
        yield
        from opentelemetry import trace

        trace.get_tracer_provider().shutdown()


class Ray(Peer):
    """The spans of a task. torchspan's are below them."""

    title = "Ray, with its hook for tracing"
    packages = ("ray",)
    command = ("FILE/in_ray.py",)
    to_know = "Call `torchspan.instrument()` in the function that `_tracing_startup_hook` names: Ray calls it in each of its processes."

    def around_torchspan(self, order):
        return {"__main__.task ray.remote_worker"}

    def asked(self, folder, python):
        return own_spans(folder)


class Jupyter(Peer):
    """What a cell prints that does the work."""

    title = "A kernel of Jupyter"
    packages = ("ipykernel", "nbclient")
    command = ("FILE/in_a_notebook.py",)


class Gunicorn(Peer):
    """The response of a worker that does the work."""

    title = "gunicorn"
    packages = ("gunicorn",)
    command = ("FILE/in_gunicorn.py",)
    to_know = SERVING


class Uvicorn(Peer):
    """The responses to two requests; the program is changed between them."""

    title = "uvicorn `--reload`"
    packages = ("uvicorn",)
    repeats = 2
    to_know = SERVING
    command = ("FILE/in_uvicorn.py",)


def own_spans(folder):
    """How often there is which span that is not torchspan's, below which: its closest ancestor that is not torchspan's either."""
    import spans_kept

    rows = {row["id"]: row for row in spans_kept.read(folder / "spans.jsonl")}

    def around(row):
        while (row := rows.get(row["parent"])) and row["scope"].startswith("torchspan"):
            pass
        return row and row["name"]

    own = Counter((row["name"], around(row)) for row in rows.values() if not row["scope"].startswith("torchspan"))
    return sorted([name, parent or "", number] for (name, parent), number in own.items())


PEERS = {
    "logfire": Logfire(),
    "ddtrace": Datadog(),
    "sentry": Sentry(),
    "contrib": Contrib(),
    "memray": Memray(),
    "coverage": Coverage(),
    "profiler": Profiler(),
    "tlparse": Tlparse(),
    "debugger": Debugger(),
    "stance": Stance(),
    "provider": Provider(),
    "ray": Ray(),
    "jupyter": Jupyter(),
    "gunicorn": Gunicorn(),
    "uvicorn": Uvicorn(),
}
