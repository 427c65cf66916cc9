# SPDX-License-Identifier: Apache-2.0
"""While the interpreter shuts down: work that continues, begins or is imported then."""

import pytest

from support import span_file


def names(file):
    return [span.name for span in span_file.read(file) if span.name != "torchspan.progress"]


THREAD = """
import threading, time
from compiling import working, phase
began = threading.Event()
def work():
    with working():
        with working(phase.LOWER):
            pass
        began.set()
        time.sleep({seconds})
        with working(phase.BUILD_ENGINE):
            pass
threading.Thread(target=work, daemon={daemon}).start()
began.wait()
"""


def test_a_thread_that_python_waits_for_loses_nothing(ends, file):
    done = ends(THREAD.format(seconds=0.5, daemon=False))

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert names(file) == ["torch_tensorrt.lower", "tensorrt.build_engine", "torch_tensorrt.compile"]


def test_work_in_a_daemon_thread_is_cut_off_and_what_ended_in_it_is_there(ends, file):
    done = ends(THREAD.format(seconds=600, daemon=True))

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert names(file) == ["torch_tensorrt.lower"]


AT_EXIT = """
import atexit
from compiling import working
def work():
    with working():
        pass
    print("worked")
atexit.register(work)
"""


def test_work_in_an_exit_handler_is_there(ends, file):
    done = ends(AT_EXIT)

    assert (done.returncode, done.stdout, done.stderr) == (0, "worked\n", "")
    assert names(file) == ["torch_tensorrt.compile"]


LATE_SDK = """
import atexit
def work():
    with working():
        pass
    print("worked")
atexit.register(work)
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from torchspan.sdk import FileSpanExporter
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(FileSpanExporter()))
trace.set_tracer_provider(provider)
from compiling import working
"""


def test_work_after_the_sdks_own_exit_fails_nothing(ends, file):
    """Exit handlers run in the reverse order: the provider is shut down before the program's compiles."""
    done = ends(LATE_SDK, is_instrumented=False)

    assert (done.returncode, done.stdout) == (0, "worked\n")
    assert "torchspan" not in done.stderr
    assert not file.exists() or names(file) == []


NO_THREADS = """
import _thread, atexit, threading
def refused(*args, **kwargs):
    raise RuntimeError("can't create new thread at interpreter shutdown")
def work():
    threading._start_new_thread = refused  # as Python 3.12 has it here
    with working():
        pass
    print("worked")
from compiling import working
atexit.register(work)
"""


@pytest.mark.fault("threads", "none can be started while the interpreter ends")
def test_where_python_refuses_new_threads_the_work_and_its_span_are_as_usual(ends, file):
    done = ends(NO_THREADS)

    assert (done.returncode, done.stdout, done.stderr) == (0, "worked\n", "")
    assert names(file) == ["torch_tensorrt.compile"]


IMPORTS_LATE = """
import threading, time
def late():
    threading.main_thread().join()
    import tensorrt
    time.sleep(0.1)
threading.Thread(target=late).start()
"""
IMPORTS_FIRST = """
import torchspan
torchspan.instrument()
import tensorrt
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from torchspan.sdk import FileSpanExporter
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(FileSpanExporter()))
trace.set_tracer_provider(provider)
"""


@pytest.fixture
def fake_tensorrt(tmp_path):
    """An empty module in place of TensorRT: only its import is observed."""
    (tmp_path / "tensorrt.py").write_text("")


@pytest.mark.usefixtures("fake_tensorrt")
def test_a_library_that_is_imported_after_the_main_thread_has_ended_is_observed(ends, file):
    done = ends(IMPORTS_LATE)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert names(file) == ["torchspan.import"]


@pytest.mark.usefixtures("fake_tensorrt")
def test_an_import_that_waited_for_a_provider_and_had_no_event_after_it_is_there(ends, file):
    done = ends(IMPORTS_FIRST, is_instrumented=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert names(file) == ["torchspan.import"]


BROKEN = """
import sys
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry import trace
class Broken(SpanProcessor):
    def on_start(self, span, parent_context=None):
        raise ValueError("a processor of the program's")
    def on_end(self, span):
        raise ValueError("a processor of the program's")
trace.get_tracer_provider().add_span_processor(Broken())
from compiling import working, phase
with working():
    with working(phase.BUILD_ENGINE):
        print("worked")
sys.exit(4)
"""


def test_a_hook_that_raises_at_each_call_changes_neither_the_output_nor_the_exit(ends):
    done = ends(BROKEN)

    assert (done.returncode, done.stdout) == (4, "worked\n")
    assert "Traceback" not in done.stderr
    assert [line.partition(" failed")[0] for line in done.stderr.splitlines()] == ["writing spans"]
