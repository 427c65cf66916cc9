# SPDX-License-Identifier: Apache-2.0
"""Where a crash is written, who may have `faulthandler`, and what is read of what it wrote."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from support.descriptors import no_more_descriptors
from torchspan.base.files import opening
from torchspan.base.files.folders import Folder
from torchspan.start.launched import faults
from torchspan.start.launched.crash import Crash, read_crash, read_crashes

BEGIN = """
import sys; from torchspan.base.files.folders import Folder
from torchspan.start.launched.faults import catch_crashes
catch_crashes(Folder(sys.argv[1]))
import faulthandler
"""


def run(tmp_path, program, *options, **variables):
    """The ended process of a program that begins with torchspan's part. Its folder for reports is `tmp_path / reports`."""
    folder, script = tmp_path / "reports", tmp_path / "app.py"
    folder.mkdir(exist_ok=True)
    script.write_text(BEGIN + textwrap.dedent(program))
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"}
    return subprocess.run(
        [sys.executable, *options, script, folder],
        env={**environ, **variables},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def crashes(tmp_path):
    return [crash._replace(pid=0) for crash in read_crashes(Folder(str(tmp_path / "reports")))]


CRASHING = """
import json

class Model:
    def forward(self, code):
        return json.loads(code, object_hook=lambda _: faulthandler._sigsegv())

def serve():
    Model().forward("{}")

serve()
"""


def test_a_crash_is_written_to_torchspans_file_and_never_to_stderr(tmp_path):
    done = run(tmp_path, CRASHING)
    assert (done.returncode, done.stderr) == (-signal.SIGSEGV, "")
    assert crashes(tmp_path) == [Crash(0, "Segmentation fault", "app.py", 11, "<lambda>")]


@pytest.mark.parametrize(
    ("act", "reason", "status"),
    [
        ("import os; os.abort()", "Aborted", -signal.SIGABRT),
        ("faulthandler._sigfpe()", "Floating point exception", -signal.SIGFPE),
        ("faulthandler._sigabrt()", "Aborted", -signal.SIGABRT),
    ],
)
def test_other_fatal_signals_are_named(tmp_path, act, reason, status):
    assert run(tmp_path, act).returncode == status
    assert [crash.reason.replace("-", " ") for crash in crashes(tmp_path)] == [reason]


def test_a_program_that_ends_normally_leaves_an_empty_file_for_the_wrapper(tmp_path):
    assert run(tmp_path, "print('done')").returncode == 0
    (file,) = (tmp_path / "reports").iterdir()
    assert (file.suffix, file.read_text(), crashes(tmp_path)) == (".crash", "", [])


def test_a_crash_after_the_last_exit_handler_is_written_too(tmp_path):
    done = run(
        tmp_path,
        """
        class Library:
            def __del__(self, crash=faulthandler._sigsegv):
                crash()

        library = Library()
        """,
    )
    assert (done.returncode, done.stderr) == (-signal.SIGSEGV, "")
    assert crashes(tmp_path) == [Crash(0, "Segmentation fault", "app.py", 9, "__del__")]


def test_a_crash_in_another_thread_is_placed_in_that_thread(tmp_path):
    run(
        tmp_path,
        """
        import threading, time

        def work():
            faulthandler._sigsegv()

        threading.Thread(target=work).start()
        time.sleep(60)
        """,
    )
    assert crashes(tmp_path) == [Crash(0, "Segmentation fault", "app.py", 10, "work")]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_crash_of_a_forked_child_is_in_a_file_of_the_childs(tmp_path):
    done = run(
        tmp_path,
        """
        import os
        pid = os.fork()
        if pid == 0:
            faulthandler._sigsegv()
        os.waitpid(pid, 0)
        print(pid)
        """,
    )
    folder = Folder(str(tmp_path / "reports"))
    assert (done.returncode, done.stderr) == (0, "")
    assert read_crashes(folder) == [read_crash(folder, int(done.stdout))]


# --- the program's own faulthandler ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "variables"), [(["-X", "faulthandler"], {}), (["-X", "dev"], {}), ([], {"PYTHONFAULTHANDLER": "1"})]
)
def test_where_it_is_enabled_by_the_interpreter_it_is_left_alone(tmp_path, options, variables):
    done = run(tmp_path, "print(faulthandler.is_enabled()); faulthandler._sigsegv()", *options, **variables)
    assert done.stderr.startswith("Fatal Python error: Segmentation fault")
    assert list((tmp_path / "reports").iterdir()) == []


def test_where_the_program_enabled_it_before_it_is_left_alone(tmp_path):
    folder = tmp_path / "reports"
    folder.mkdir()
    program = f"import faulthandler\nfaulthandler.enable()\n{BEGIN}faulthandler._sigsegv()"
    done = subprocess.run(
        [sys.executable, "-c", program, folder], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr.startswith("Fatal Python error: Segmentation fault")
    assert list(folder.iterdir()) == []


def test_when_the_program_enables_it_the_crash_is_on_its_stderr_as_without_torchspan(tmp_path):
    done = run(tmp_path, "faulthandler.enable(); faulthandler._sigsegv()")
    assert done.stderr.startswith("Fatal Python error: Segmentation fault")
    assert list((tmp_path / "reports").iterdir()) == []


ASKING = """
original = type(len)
print(faulthandler.is_enabled(), faulthandler.disable(), faulthandler.is_enabled())
faulthandler.enable()
print(faulthandler.is_enabled(), faulthandler.disable(), faulthandler.is_enabled(), faulthandler.disable())
print([isinstance(getattr(faulthandler, name), original) for name in ("enable", "disable", "is_enabled")])
"""


@pytest.mark.fault("interpreter", "the program uses faulthandler")
def test_what_the_program_sees_of_it_is_what_it_sees_without_torchspan(tmp_path):
    assert run(tmp_path, ASKING).stdout.splitlines() == [
        "False False False",
        "True True False False",
        "[True, True, True]",
    ]


def test_after_the_program_disabled_it_a_crash_is_written_nowhere(tmp_path):
    done = run(tmp_path, "print(faulthandler.disable()); faulthandler._sigsegv()")
    assert (done.returncode, done.stderr) == (-signal.SIGSEGV, "")
    assert list((tmp_path / "reports").iterdir()) == []


def test_an_enable_that_fails_changes_nothing(tmp_path):
    done = run(
        tmp_path,
        """
        try:
            faulthandler.enable(file="no file")
        except AttributeError:
            print(faulthandler.is_enabled(), flush=True)
        faulthandler._sigsegv()
        """,
    )
    assert done.stdout == "False\n"
    assert [crash.reason for crash in crashes(tmp_path)] == ["Segmentation fault"]


UNDER_PYTEST = """
import pytest

for name, text in (
    ("empty.ini", ""),
    ("test_it.py", "import faulthandler; test_it = lambda: 1 / faulthandler.is_enabled()"),
):
    with open(name, "w") as file:
        file.write(text)
print(int(pytest.main(["-q", "-p", "no:cacheprovider", "-c", "empty.ini", "test_it.py"])))
print(faulthandler.is_enabled())
"""


def test_pytest_has_it_while_it_runs_and_it_is_off_afterwards_as_without_torchspan(tmp_path):
    done = run(tmp_path, UNDER_PYTEST)
    assert done.stdout.splitlines()[-2:] == ["0", "False"]
    assert list((tmp_path / "reports").iterdir()) == []


def test_a_folder_that_is_gone_raises_nothing_and_leaves_it_off(tmp_path):
    done = run(
        tmp_path,
        """
        import os
        os.mkdir(sys.argv[1] + "/gone")
        folder = Folder(sys.argv[1] + "/gone")
        os.rmdir(folder.path)
        catch_crashes(folder)
        print(faulthandler.is_enabled())
        """,
    )
    assert (done.returncode, done.stdout) == (0, "False\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_whose_folder_is_gone_crashes_as_without_torchspan(tmp_path):
    done = run(
        tmp_path,
        """
        import os, shutil
        shutil.rmtree(sys.argv[1])
        if os.fork() == 0:
            faulthandler._sigsegv()
        print(os.wait()[1])
        """,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{int(signal.SIGSEGV)}\n", "")


# --- reading -----------------------------------------------------------------------------------------------------

IN_TORCH = """\
Fatal Python error: Segmentation fault

Thread 0x00007f10 (most recent call first):
  File "/srv/u/other.py", line 1 in wait

Current thread 0x00007f11{name} (most recent call first):
  File "/srv/u/.venv/lib/python3.11/site-packages/torch_tensorrt/runtime/_engine.py", line 12 in execute
  File "/srv/u/.venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1775 in _call_impl
  File "<eval_with_key>.3", line 5 in forward
  File "/usr/lib/python3.11/contextlib.py", line 81 in inner
  File "/usr/local/lib/python3.12/dist-packages/tensorrt_rtx/__init__.py", line 3 in run
  File "<frozen runpy>", line 88 in _run_code
  File "/srv/u/app/serve.py", line 41 in predict
  File "/srv/u/app/main.py", line 9 in <module>

Thread 0x00007f12 (most recent call first):
  File "/srv/u/other.py", line 1 in wait

Extension modules: numpy.core._multiarray_umath (total: 1)
"""


def written(tmp_path, text, pid=5):
    (tmp_path / f"{pid}.crash").write_text(text)
    return read_crash(Folder(str(tmp_path)), pid)


@pytest.mark.parametrize("name", ["", " [MainThread]"])
def test_the_innermost_frame_of_the_users_in_the_thread_that_crashed_is_named(tmp_path, name):
    crash = written(tmp_path, IN_TORCH.replace("{name}", name))
    assert crash == Crash(5, "Segmentation fault", "serve.py", 41, "predict")


def test_a_program_given_on_the_command_line_is_the_users(tmp_path):
    text = 'Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  File "<string>", line 1 in <module>\n'
    assert written(tmp_path, text) == Crash(5, "Aborted", "<string>", 1, "<module>")


def test_a_package_of_the_users_in_site_packages_is_the_users(tmp_path):
    frame = '  File "/v/lib/python3.11/site-packages/torch_models/net.py", line 7 in forward\n'
    text = f"Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n{frame}"
    assert written(tmp_path, text) == Crash(5, "Aborted", "net.py", 7, "forward")


def test_a_line_that_is_not_known_is_none(tmp_path):
    text = (
        'Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  File "/a/b.py", line ??? in f\n'
    )
    assert written(tmp_path, text) == Crash(5, "Aborted", "b.py", None, "f")


def test_without_a_frame_of_the_users_the_reason_is_all_there_is(tmp_path):
    text = (
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n  <no Python frame>\n"
    )
    assert written(tmp_path, text) == Crash(5, "Segmentation fault")


def test_a_thread_that_did_not_crash_is_not_read(tmp_path):
    text = 'Fatal Python error: Aborted\n\nThread 0x1 (most recent call first):\n  File "/a/b.py", line 1 in f\n'
    assert written(tmp_path, text) == Crash(5, "Aborted")


def test_of_two_crashes_the_last_is_what_the_process_died_of(tmp_path):
    first = (
        'Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  File "/a/b.py", line 1 in f\n\n'
    )
    assert written(tmp_path, first + IN_TORCH.replace("{name}", "")).reason == "Segmentation fault"


def test_a_windows_exception_is_a_crash(tmp_path):
    frame = '  File "C:\\\\app\\\\serve.py", line 4 in predict\n'.replace("\\\\", "\\")
    text = f"Windows fatal exception: access violation\n\nCurrent thread 0x1 (most recent call first):\n{frame}"
    assert written(tmp_path, text) == Crash(5, "access violation", "serve.py", 4, "predict")


@pytest.mark.parametrize("text", ["", "torn", "\0\0"])
def test_what_is_not_a_crash_is_none(tmp_path, text):
    assert written(tmp_path, text) is None


def test_files_that_are_missing_and_other_files_are_not_crashes(tmp_path):
    (tmp_path / "notes.crash").write_text(IN_TORCH)
    folder = Folder(str(tmp_path))
    assert read_crash(folder, 7) is None
    assert read_crashes(folder) == []


def test_a_file_for_crashes_that_could_not_be_opened_leaves_no_descriptor(tmp_path, monkeypatch):
    def failing(*_arguments):
        raise MemoryError

    folder = Folder(str(tmp_path))
    monkeypatch.setattr(opening, "_high", failing)
    monkeypatch.setattr(faults.faulthandler, "is_enabled", lambda: False)  # pytest has enabled it
    with no_more_descriptors(), pytest.raises(MemoryError):
        faults.catch_crashes(folder)
