# SPDX-License-Identifier: Apache-2.0
"""The environment variables of torchspan, one documented constant each. Its public face is `torchspan.environment_variables`."""

TORCHSPAN_DETAIL = "TORCHSPAN_DETAIL"
"""The level of detail of a compilation: `stages` (default) or `passes` (a span for each lowering pass, too)."""

TORCHSPAN_BUILD_PHASES = "TORCHSPAN_BUILD_PHASES"
"""TensorRT's build phases as spans below the engine build: `on`, `off` or `auto` (default).

They need a progress monitor in the builder's configuration, the only thing that torchspan adds to a library. `auto`
adds it under `torchspan run` and `torchspan demo` on TensorRT-RTX, where it was measured to change neither the engine
nor its build time, and nowhere else."""

TORCHSPAN_HEARTBEAT = "TORCHSPAN_HEARTBEAT"
"""Seconds between the `torchspan.progress` spans of a compilation that is still running: 0.1 to 86400, or `0`: none at all.

The first comes after two seconds at the latest. Not set: the gaps are 5, 10, 20, 40 and then 60 s: 2, 7, 17, 37, 77 and 137 s
after the start, then every minute. torchspan's own files contain one at the start as well: the file of `torchspan run` always,
a file of `torchspan_file` unless this is `0`."""

TORCHSPAN_FILE = "TORCHSPAN_FILE"
"""File of the exporter `torchspan_file` (`OTEL_TRACES_EXPORTER=torchspan_file`): OTLP as JSON lines.

`%p` is the process id, `%t` the time at which the process started. Default: `torchspan-%t-%p.jsonl`."""

TORCHSPAN_FILE_MAX_SIZE = "TORCHSPAN_FILE_MAX_SIZE"
"""Bytes at which the exporter stops writing to its file. Default: 268435456 (256 MiB)."""

TORCHSPAN_FILE_MODE = "TORCHSPAN_FILE_MODE"
"""Permissions of the files of traces that torchspan creates, in octal digits. Default: `600`, for their owner alone.

`640` lets the group read them. An existing file keeps its permissions, and a file of another user is never written to."""

TORCHSPAN_WITHOUT_GPU = "TORCHSPAN_WITHOUT_GPU"
"""`1`: run Torch-TensorRT's real pipeline on a machine without a GPU (see `torchspan.testing.without_gpu`)."""

TORCHSPAN_CAPTURE = "TORCHSPAN_CAPTURE"
"""Who gets the texts of messages and guards whole.

Default `local`: the file of `torchspan run`, the terminal on which it ends, and `torchspan.testing.capture()`. Exporters get what the
table of messages lets through. `none`: no one. `text`: exporters too."""

TORCHSPAN_EVENTS = "TORCHSPAN_EVENTS"
"""What torchspan's events are, such as graph breaks and lines of TensorRT's log: events of their spans (`span`, default) or log records
with the ids of their spans (`log`).

Where no logger provider accepts a record, it is an event of its span. The file of `torchspan run` and `torchspan.testing.capture()` have
events on spans in any case. For exceptions, OpenTelemetry's OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN decides."""

TORCHSPAN_GPU_TIME = "TORCHSPAN_GPU_TIME"
"""`sampled`: runs of engines and compiled graphs that have a span also have their time on the device. Default: `off`."""

TORCHSPAN_LAYERS = "TORCHSPAN_LAYERS"
"""The engine whose layers TensorRT times: its name, or `*` for each engine, and after a colon the number of runs (`*:50`; default 20).
TensorRT waits for the device at the end of each of these runs."""

TORCHSPAN_GRAPH_RUNS = "TORCHSPAN_GRAPH_RUNS"
"""`1`: runs of graphs that `torch.compile` compiles after instrumentation are spans, within the limits and rules of engine runs."""

TORCHSPAN_NATIVE_BUILD = "TORCHSPAN_NATIVE_BUILD"
"""`on`: a program that records operators builds the library for it where it is not built, as
`python -m torchspan.native build` does. `off` (default): it says which command builds it."""

TORCHSPAN_OPERATORS = "TORCHSPAN_OPERATORS"
"""Whether PyTorch's operators are recorded below runs of engines and compiled graphs, and observed functions.

`off` (default): only in blocks `with torchspan.operators()`. `sampled`: below those in traces that the sampler has kept.
`on`: below each that is recorded, also one that is recorded at any sampling rate, such as the first run of an engine. Runs that
nothing surrounds are recorded as well, within their limits."""

TORCHSPAN_INPUTS = "TORCHSPAN_INPUTS"
"""The modules whose calls are counted by the shapes of their arguments: `off` (default), or a list separated by commas.

`compiled` selects the modules that Torch-TensorRT compiles after instrumentation, the graphs that it compiles for
`torch.compile`, and the modules of compiled programs that are loaded. `module:Class` selects the objects of a class that the
program creates after instrumentation. Calls are span events and metrics; no value leaves the process."""

TORCHSPAN_INPUTS_EVERY = "TORCHSPAN_INPUTS_EVERY"
"""Of the calls that TORCHSPAN_INPUTS counts, one in this many is a span event, and so is the first of each shape. Default: 100."""

TORCHSPAN_PROPAGATION = "TORCHSPAN_PROPAGATION"
"""Whether the context is propagated into threads, pools and processes: `on` (default), `links` or `off`.

`links` is `on` for a process that lives long (a server, a worker that a span of another process happened to start): the
context that it was started with, TRACEPARENT included, becomes a link instead of a parent. As every setting, it also applies to
the processes that this one starts."""

TORCHSPAN_READY_AFTER = "TORCHSPAN_READY_AFTER"
"""`module:function`: the program is ready to serve once this function has returned, as if it called `torchspan.mark_ready()`.

Later compilations are marked `torchspan.while_serving`. A coroutine function counts once it was awaited.
`module:Class.method` is possible; a function of the script itself (`__main__`) is not."""

TORCHSPAN_SAMPLE_OTHER = "TORCHSPAN_SAMPLE_OTHER"
"""With torchspan's sampler: the share of traces, 0 to 1, in which the program's own spans are kept. Default: 1.

`torchspan` decides each span by its trace id, as `traceidratio` does; `parentbased_torchspan` decides roots that way, and
other spans follow their parents. The rules may also be given together, as
`OTEL_TRACES_SAMPLER_ARG=other=1.0,execute=0.01,execute_per_second=10`; the variable of a single rule wins."""

TORCHSPAN_SAMPLE_EXECUTE = "TORCHSPAN_SAMPLE_EXECUTE"
"""The share of engine runs outside every span, 0 to 1, that begin a trace. Default: 0.

Under a sampler other than torchspan's it is not a share: where it is more than 0, that sampler is asked about such runs, and
decides alone."""

TORCHSPAN_SAMPLE_EXECUTE_PER_SECOND = "TORCHSPAN_SAMPLE_EXECUTE_PER_SECOND"
"""How many runs of one engine may be spans within a second, in addition to its first run and failed runs.

Default: 10, or no limit if TORCHSPAN_SAMPLE_EXECUTE_TARGET is set."""

TORCHSPAN_SAMPLE_EXECUTE_TARGET = "TORCHSPAN_SAMPLE_EXECUTE_TARGET"
"""With torchspan's sampler: how many engine runs per second are spans in a process, however many runs there are.

Runs inside other spans count as well. It replaces TORCHSPAN_SAMPLE_EXECUTE. Not set: no target."""

TORCHSPAN_RANKS = "TORCHSPAN_RANKS"
"""The ranks of a distributed job that record torchspan's spans: `all` (default), or ranks such as `0`, `0-7` or `0,4-6`.

The rank is read from the variables of the launcher, at each span: RANK (torchrun), OMPI_COMM_WORLD_RANK, MV2_COMM_WORLD_RANK,
PMI_RANK, SLURM_PROCID, JOB_COMPLETION_INDEX. A process without a rank records spans. Every rank records metrics; spans that a
rank leaves out are counted in `torchspan.span.dropped` with the reason `rank`. The program's own spans are left to its sampler."""

TORCHSPAN_RUN_EXIT_TIMEOUT = "TORCHSPAN_RUN_EXIT_TIMEOUT"
"""Seconds that a program under `torchspan run` may wait at its end for exporters that `run` created. Default: 2.

These are the exporters that OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER name, where the program sets no provider of
its own. The last lines of `run` count the spans that they did not deliver by then; the file contains these spans."""

TORCHSPAN_RUN = "TORCHSPAN_RUN"
"""Set by `torchspan run` for the processes that it starts: what they need to know about the run, as JSON."""

# No assignment: for the site, every name without an underscore is then public.
globals()["__all__"] = [name for name in dir() if name.startswith("TORCHSPAN_")]
