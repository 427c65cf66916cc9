# SPDX-License-Identifier: Apache-2.0
"""What `torchspan run` says of a run of which nothing, or not all, arrived: the true reason."""

import os
import subprocess
import sys

import pytest

from support.child import unmeasured
from support.without import python_without

pytestmark = pytest.mark.slow

OBSERVED = "from torchspan import observers\n@observers.observable()\ndef work():\n    pass\nwork()\n"
UNSAMPLED = {"TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}
LOST = "torchspan: nothing was recorded: "
UNKNOWN = "Requested component 'nosuch' not found in entry point 'opentelemetry_traces_exporter'"
NOT_THERE = "the package opentelemetry-configuration that reads it is not installed"


@pytest.fixture
def said(tmp_path):
    """`said(**variables)`: what `torchspan run` writes to stderr, without what it draws."""

    def call(text=OBSERVED, python=sys.executable, output="x.jsonl", **variables):
        (tmp_path / "app.py").write_text(text)
        run = "import sys; from torchspan.cli import main; sys.exit(main())"
        environ = {k: v for k, v in unmeasured().items() if not k.startswith(("OTEL_", "TORCHSPAN_", "TRACEPARENT"))}
        done = subprocess.run(
            [python, "-c", run, "run", "--quiet", "--output", output, "--", python, "app.py"],
            cwd=tmp_path,
            env=environ | variables,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0
        return done.stderr

    return call


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ""),
        ({"OTEL_SDK_DISABLED": "true"}, f"{LOST}OTEL_SDK_DISABLED=true disables OpenTelemetry\n"),
        (
            UNSAMPLED,
            f"{LOST}TRACEPARENT marks its trace as not sampled (flags 00), and the sampler follows it\n",
        ),
        (
            {"TORCHSPAN_RANKS": "0", "RANK": "1"},
            f"{LOST}TORCHSPAN_RANKS selects no rank that did anything (spans left out: 1)\n",
        ),
        (
            {"OTEL_TRACES_SAMPLER": "always_off"},
            f"{LOST}the sampler dropped all 1 (OTEL_TRACES_SAMPLER=always_off)\n",
        ),
        (
            {"OTEL_TRACES_EXPORTER": "nosuch"},
            f"torchspan: OTEL_TRACES_EXPORTER=nosuch: {UNKNOWN}; to check the exporters: torchspan doctor\n",
        ),
        (
            {"TORCHSPAN_RUN_EXIT_TIMEOUT": "soon"},
            "torchspan: Invalid TORCHSPAN_RUN_EXIT_TIMEOUT='soon', using default 2 (expected 0 to 86400 seconds)\n",
        ),
        (
            {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "torchspan"},
            f"{LOST}OTEL_PYTHON_DISABLED_INSTRUMENTATIONS disables torchspan\n",
        ),
    ],
    ids=["none", "sdk disabled", "unsampled parent", "rank", "sampler", "exporter", "exit timeout", "disabled"],
)
def test_the_reason_is_the_true_one(said, variables, expected):
    assert said(**variables) == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (
            {"OTEL_PROPAGATORS": "b3"},
            "OpenTelemetry failed to load the instrumentations: ValueError: Propagator b3 not found. It is either misspelled or not installed.\n",
        ),
        ({"OTEL_PYTHON_TRACER_PROVIDER": "nosuch"}, "torchspan could not be enabled: StopIteration()\n"),
    ],
    ids=["propagator", "provider"],
)
def test_a_configuration_that_opentelemetry_refuses_is_the_reason_where_a_library_was_imported(
    said, tmp_path, variables, expected
):
    """The program builds with TensorRT, and starts a Python that does nothing."""
    (tmp_path / "tensorrt.py").write_text("__version__ = '10.0'")  # the name is all that counts here
    builds = "import subprocess, sys, tensorrt\nsubprocess.run([sys.executable, '-c', ''], check=True)"
    assert said(builds, **variables).splitlines(keepends=True)[-1] == f"{LOST}{expected}"


def test_a_configuration_file_without_the_package_that_reads_it_is_named(said, tmp_path):
    python = python_without(tmp_path / "python", "opentelemetry.configuration")
    expected = f"torchspan: OTEL_CONFIG_FILE is set, but {NOT_THERE}; install it with: pip install 'torchspan[auto]'\n"
    assert said(python=python, OTEL_CONFIG_FILE="otel.yaml") == expected


def test_a_configuration_file_that_disables_torchspan_is_the_reason(said, tmp_path):
    (tmp_path / "otel.json").write_text(
        '{"file_format": "1.0", "instrumentation/development": {"python": {"torchspan": {"enabled": false}}}}'
    )
    assert said(OTEL_CONFIG_FILE="otel.json").splitlines()[-1] == (
        f"{LOST}the file of OTEL_CONFIG_FILE disables torchspan "
        "(enabled: false in instrumentation/development.python.torchspan)"
    )


PLACE = "tracer_provider.processors.0.batch.exporter.otlp_http.headers_list"
EXPORTER = "tracer_provider: {processors: [{batch: {exporter: {otlp_http: {headers_list: %s}}}}]}"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (
            EXPORTER % "[s3cret]",
            f"{PLACE} does not match OpenTelemetry's schema (rule `type`)",
        ),
        ("headers: Bearer s3cret: x", "line 2, column 23 is not YAML (ScannerError)"),
        ("headers: *s3cret", "line 2, column 10 is not YAML (ComposerError)"),
        ("tracer_provider: {processors: [{batch: {exporter: {no_such: }}}]}", "Plugin 'no_such' not found"),
    ],
    ids=["type", "syntax", "alias", "plugin"],
)
def test_of_a_bad_configuration_file_the_place_is_said_and_no_value(said, tmp_path, text, where):
    """OpenTelemetry's message and its traceback repeat the value, which may be a credential."""
    (tmp_path / "otel.yaml").write_text(f'file_format: "1.0"\n{text}\n')
    errors = said(OTEL_CONFIG_FILE="otel.yaml")
    assert (
        "torchspan: OTEL_CONFIG_FILE is set, and OpenTelemetry's configurator failed: "
        f"ConfigurationError: {where}; to check the file: torchspan doctor\n"
    ) in errors
    assert "s3cret" not in errors


def test_a_header_without_a_name_is_a_warning_without_its_value(said, tmp_path):
    (tmp_path / "otel.yaml").write_text(f'file_format: "1.0"\n{EXPORTER % "s3cret"}\n')
    errors = said(
        "import logging\nlogging.getLogger('opentelemetry').warning('of the program: %s', 'value')",
        OTEL_CONFIG_FILE="otel.yaml",
    )
    assert "Invalid header pair in headers_list (missing '='): ?\n" in errors
    assert "of the program: value\n" in errors
    assert "s3cret" not in errors


def test_a_sampler_of_the_programs_provider_is_named_as_its(said):
    text = (
        "from opentelemetry import trace\nfrom opentelemetry.sdk.trace import TracerProvider, sampling\n"
        "trace.set_tracer_provider(TracerProvider(sampler=sampling.ALWAYS_OFF))\n" + OBSERVED
    )
    assert said(text) == f"{LOST}the sampler of the program's own tracer provider dropped all 1\n"


def test_a_file_that_was_taken_away_while_the_program_ran_is_the_reason(said, tmp_path):
    text = "import os\nos.path.exists('x.jsonl') and os.remove('x.jsonl')\nos.mkdir('x.jsonl')\n" + OBSERVED
    file = tmp_path / "x.jsonl"
    assert said(text) == (
        f"torchspan: {file} cannot be written: Is a directory. Spans are missing from the file of torchspan run.\n"
        f"torchspan: cannot read {file}: Is a directory\n"
        f"{LOST}1 of 1 spans are missing from the file: {file} cannot be written: Is a directory\n"
    )


def of_ten(change):
    """A program of ten spans, between the fifth and the sixth of which something happens to the file."""
    return (
        "import os, resource\nfrom opentelemetry import trace\n"
        "def work(): trace.get_tracer('torchspan').start_span('work').end()\n"
        f"for _ in range(5): work()\n{change}\nfor _ in range(5): work()\n"
    )


TOO_LARGE = "File too large: this process may write files of at most 2000 bytes (RLIMIT_FSIZE, ulimit -f)"


@pytest.mark.fault(
    "files",
    "full, removed, truncated, renamed, or replaced by a link or a pipe, while the program runs",
    lost="the spans from then on",
    counted="the last line of torchspan run",
)
@pytest.mark.parametrize(
    ("change", "number", "cause"),
    [
        ("os.remove('x.jsonl')", "5 of 10", "was removed, truncated or replaced while the program ran"),
        ("os.truncate('x.jsonl', 0)", "5 of 10", "was removed, truncated or replaced while the program ran"),
        ("os.rename('x.jsonl', 'x.jsonl.1')", "10 of 10", "was removed or renamed while the program ran"),
        (
            "os.remove('x.jsonl'); os.symlink('/dev/null', 'x.jsonl')",
            "10 of 10",
            "cannot be written: it is a link, which torchspan does not follow",
        ),
        (
            "os.remove('x.jsonl'); os.mkfifo('x.jsonl')",
            "10 of 10",
            "cannot be written: it is a named pipe, and not a regular file",
        ),
        (
            "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))",
            "5 of 10",
            f"cannot be written: {TOO_LARGE}",
        ),
    ],
    ids=["removed", "truncated", "rotated", "link", "pipe", "full"],
)
def test_spans_that_are_not_in_the_file_are_counted_and_the_cause_is_the_true_one(
    said, tmp_path, change, number, cause
):
    """The end said nothing, or that none was sampled."""
    text = f"import logging\nlogging.disable()\n{of_ten(change)}"
    is_none_left = number == "10 of 10"
    expected = f"{number} spans are missing from the file: {tmp_path}/x.jsonl {cause}"
    assert said(text).splitlines()[-1] == f"{LOST if is_none_left else 'torchspan: '}{expected}"


@pytest.mark.fault("files", "its folder is renamed", lost="all spans", counted="the last line of torchspan run")
def test_a_folder_that_was_renamed_with_the_file_is_the_cause(said, tmp_path):
    text = of_ten("os.rename('traces', 'elsewhere')")
    assert said(text, output="traces/x.jsonl") == (
        f"{LOST}10 of 10 spans are missing from the file: "
        f"{tmp_path}/traces/x.jsonl was removed or renamed while the program ran\n"
    )


def test_spans_that_a_forked_child_could_not_write_are_counted_in_its_process_alone(said):
    limited = "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))"
    text = of_ten(f"child = os.fork()\nif child == 0: {limited}") + "if child: os.waitpid(child, 0)\n"
    last = said(f"import logging\nlogging.disable()\n{text}").splitlines()[-1]
    assert last.startswith("torchspan: 5 of 15 spans are missing from the file: ")


NO_DESCRIPTORS = "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))"


def test_spans_of_a_process_that_can_open_neither_its_file_nor_its_report_are_counted(said, tmp_path):
    """The end said that nothing was compiled, or nothing at all."""
    text = of_ten(f"os.remove('x.jsonl')\n{NO_DESCRIPTORS}")
    last = said(f"import logging\nlogging.disable()\n{text}").splitlines()[-1]
    assert (
        last
        == f"{LOST}10 of 10 spans are missing from the file: {tmp_path}/x.jsonl cannot be written: Too many open files"
    )


ALL_DESCRIPTORS = """
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
try:
    while True:
        os.dup(0)
except OSError:
    pass
"""


def test_spans_of_a_child_that_is_forked_where_no_descriptor_is_left_are_counted_too(said):
    text = of_ten(f"os.remove('x.jsonl')\n{ALL_DESCRIPTORS}\nchild = os.fork()\nif child: os.waitpid(child, 0)")
    last = said(f"import logging\nlogging.disable()\n{text}").splitlines()[-1]
    assert last.startswith("torchspan: 5 of 15 spans are missing from the file: ")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_spans_of_a_process_that_has_become_another_user_are_counted(said, tmp_path):
    text = of_ten("os.remove('x.jsonl'); os.setgid(65534); os.setuid(65534)")
    last = said(f"import logging\nlogging.disable()\n{text}").splitlines()[-1]
    assert (
        last
        == f"{LOST}10 of 10 spans are missing from the file: {tmp_path}/x.jsonl cannot be written: Permission denied"
    )


def test_a_process_that_ends_without_its_exit_handlers_has_lost_at_least_what_it_reported(said):
    text = of_ten("resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))")
    last = said(f"import logging\nlogging.disable()\n{text}os._exit(0)\n").splitlines()[-1]
    assert last.startswith("torchspan: at least 4 of 9 spans are missing from the file: ")


def test_a_report_on_work_in_progress_is_not_counted_as_a_span_that_is_missing(said):
    """A compilation of some seconds below torch.compile ended with `3 of 48 spans are missing from the file`."""
    assert said(of_ten("trace.get_tracer('torchspan').start_span('torchspan.progress').end()")) == ""


@pytest.mark.fault(
    "the SDK", "a limit of its variables is not a number", lost="all spans", counted="the last line of torchspan run"
)
def test_a_tracer_that_cannot_be_made_is_the_reason_and_is_said_once(said):
    """The sampler was said to have dropped all spans."""
    limit = "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"
    assert said(**{limit: "many"}) == (
        f"{LOST}the OTEL_* variables cannot be applied: "
        f"ValueError('{limit} must be a non-negative integer but got many')\n"
    )
    without_sdk = said(f"import sys\nsys.modules['opentelemetry.sdk.trace'] = None\n{OBSERVED}")
    assert without_sdk.startswith(f"{LOST}the OpenTelemetry SDK cannot be imported: ModuleNotFoundError(")
    assert without_sdk.count("\n") == 1


def test_a_file_at_its_largest_size_is_the_cause_and_lacks_the_span_of_the_run(said, tmp_path):
    errors = said(of_ten("pass"), TORCHSPAN_FILE_MAX_SIZE="2000").splitlines()
    full = f"{tmp_path}/x.jsonl has reached its limit of 2000 bytes (TORCHSPAN_FILE_MAX_SIZE)"
    written = len((tmp_path / "x.jsonl").read_text().splitlines())
    assert errors == [
        f"torchspan: {full}. Spans are missing from the file of torchspan run.",
        f"torchspan: the span torchspan.run is missing from the file: {full}",
        f"torchspan: {10 - written} of 10 spans are missing from the file: {full}",
    ]


def test_spans_that_have_not_ended_are_not_said_to_be_unsampled(said):
    text = """
import threading, time
from torchspan import observers
begun = threading.Semaphore(0)
@observers.observable()
def work():
    begun.release()
    time.sleep(60)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
    begun.acquire()
"""
    assert said(text) == f"{LOST}2 spans were started, but none ended\n"
