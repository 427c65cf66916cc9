# SPDX-License-Identifier: Apache-2.0
"""What every test shares: the pipeline without a GPU, unless `make gpu` has one, and a place where spans arrive."""

import gc
import json
import os
import shlex
import shutil
import tempfile
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import torchspan.testing
from support import summaries as summaries_of
from support.emitted import EMITTED
from support.gpu import ON_GPU, Gpu, import_torch_tensorrt
from support.metrics import Metrics
from support.needs import Needs
from support.run_log import RunLog
from support.steady_spans import SteadySpans
from support.unmeasured import Unmeasured
from tests_by_row import ONCE
from torchspan import TorchspanInstrumentor
from torchspan.base.boundaries import Failures
from torchspan.hooks import native
from torchspan.words import settings

# torch_tensorrt writes caches and locks below the temporary folder; Dynamo may compile in worker processes.
os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="torchspan-tests-")
for variable in [name for name in os.environ if name.startswith(("TORCHSPAN_", "OTEL_"))]:
    del os.environ[variable]
os.environ["XDG_CACHE_HOME"] = str(Path(tempfile.tempdir, "cache"))  # the stand-in keeps engines there
if ON_GPU:
    import_torch_tensorrt()
else:
    torchspan.testing.without_gpu()


LARGEST_COMPARED = 100_000
"""Bytes of the largest file whose views are compared where slow tests are left out."""


@pytest.fixture(scope="session", autouse=True)
def summaries(tmp_path_factory, pytestconfig):
    """Hold the summary of every file that the session has written against its schema, at its end, and compare all views of it.

    Without the slow tests, views of large files are not compared.
    """
    yield
    largest = LARGEST_COMPARED if "not slow" in pytestconfig.getoption("markexpr") else None
    assert list(summaries_of.invalid(tmp_path_factory.getbasetemp(), largest)) == []


CXX = os.environ.get("CXX", "")
"""As the suite was started: some tests set another one."""


@pytest.fixture(scope="session")
def cxx():
    """The command of the C++ compiler."""
    named = shlex.split(CXX)
    for command in [named] if named else (["c++"], ["g++"], ["clang++"]):
        if shutil.which(command[0]):
            return command
    pytest.skip("no C++ compiler, which builds the library for operators (g++ or clang++)")


@pytest.fixture(scope="session")
def native_library(cxx):
    """The library that records operators. The processes of a suite, and later suites, share what the first one has built.

    Programs that a test starts find it in the folder for caches.
    """
    shared = Path(__file__).resolve().parents[1] / ".cache" / "native-tests"
    folder = Path(os.environ["XDG_CACHE_HOME"], "torchspan")
    shared.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / "native").exists():  # a page of the documentation may have built it there
        (folder / "native").symlink_to(shared)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHSPAN_NATIVE_BUILD", "on")
        patch.setenv("CXX", CXX)
        return native.library()


@pytest.fixture
def exporter():
    """Spans as they end, without those that depend on the speed of the machine."""
    return SteadySpans()


@pytest.fixture
def provider(exporter):
    """A real tracer provider; everything that arrives is also held against the attribute table at the end."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provider.add_span_processor(SimpleSpanProcessor(EMITTED))
    return provider


@pytest.fixture
def metrics():
    """A reader of a meter provider of its own; what it read is held against the table of metrics at the end."""
    return Metrics()


@pytest.fixture
def tracer(provider):
    """The user's own tracer."""
    return provider.get_tracer("user")


@pytest.fixture
def instrument(provider, metrics):
    """Switches the bridge on, as often as a test likes; it is off again after the test.

    Without heartbeats, so that a tree of spans is what a test expects also on a slow machine.
    """
    instrumentor = TorchspanInstrumentor()

    def enable(**options):
        instrumentor.uninstrument() if instrumentor.is_instrumented_by_opentelemetry else None
        defaults = {"tracer_provider": provider, "meter_provider": metrics.provider, "heartbeat": "0"}
        instrumentor.instrument(**{**defaults, **options})
        return instrumentor

    yield enable
    metrics.read()
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()


@pytest.fixture(autouse=True)
def no_invalid_value_has_been_named(monkeypatch):
    """A process names each invalid value once; here each test is one."""
    monkeypatch.setattr(settings, "_warned", {})


@pytest.fixture(autouse=True)
def no_failure_is_left_to_report(monkeypatch):
    """Failures of a process that have not been in the metric yet are in it once there is one; here each test is a process."""
    monkeypatch.setattr(Failures, "total", 0)
    monkeypatch.setattr(Failures, "before", 0)


@pytest.fixture(autouse=True)
def nothing_is_left_over():
    """No test leaves the bridge on, or a span current."""
    from opentelemetry import trace

    yield
    left_on = TorchspanInstrumentor().is_instrumented_by_opentelemetry
    if left_on:
        TorchspanInstrumentor().uninstrument()
    assert not left_on
    assert trace.get_current_span() is trace.INVALID_SPAN


def pytest_configure(config):
    config.pluginmanager.register(RunLog(config))
    config.pluginmanager.register(Needs(config))
    config.pluginmanager.register(Gpu())
    config.pluginmanager.register(Unmeasured())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Folders of `ONCE` get the mark `once`. Files that take long come first, so that at the end no worker waits for one that began last."""
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if folder in ONCE:
            item.add_marker(pytest.mark.once(ONCE[folder]))
    slow = json.loads((Path(__file__).parent / "shares.json").read_text(encoding="utf-8"))["files"]
    items.sort(key=lambda item: -slow.get(Path(item.location[0]).as_posix(), 0.0))


def pytest_collection_finish():
    """Collecting garbage, which tests and Torch-TensorRT do, need not look at what the imported libraries hold."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Nor at what the tests of earlier files and the libraries have kept: a third of a second for each of a thousand tests."""
    yield
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()
