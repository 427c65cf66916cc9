# SPDX-License-Identifier: Apache-2.0
"""The file of `torchspan run`, which is tried before the program starts."""

import os
import re
import sys

import pytest

from support.child import unmeasured
from support.first_screen import WHILE_IT_RUNS
from torchspan.base.files import opening
from torchspan.cli import _output

TRACED = "from opentelemetry import trace; trace.get_tracer('torchspan').start_span('work').end()"

NO_FOLDER = "the current folder cannot be written: No such file or directory"
TRACE = '{"resourceSpans":[]}\n'


def refused(torchspan, file, *program):
    """The message about a file; the program is not started."""
    status, out, err = torchspan("run", "--output", file, "--", *(program or ("echo", "started")))
    assert (status, out) == (2, "")
    return err.removeprefix("torchspan run: cannot write ")


def test_a_folder_is_refused(torchspan, tmp_path):
    assert refused(torchspan, tmp_path) == f"{tmp_path}: Is a directory; name another file: --output <file>\n"


def test_a_dash_is_refused(torchspan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reason = "it is the standard output, and traces are appended to a file; name another file: --output <file>\n"
    assert refused(torchspan, "-") == f"-: {reason}"
    assert os.listdir(tmp_path) == []


def test_a_file_below_a_file_is_refused(torchspan, tmp_path):
    (tmp_path / "file").touch()

    assert refused(torchspan, tmp_path / "file" / "x.jsonl") == (
        f"{tmp_path}/file/x.jsonl: {tmp_path}/file is not a folder; name another file: --output <file>\n"
    )


def test_a_place_where_no_file_can_be_made_is_refused(torchspan):
    assert refused(torchspan, "/proc/x") == ("/proc/x: No such file or directory; name another file: --output <file>\n")


def test_a_name_that_is_too_long_is_refused(torchspan, tmp_path):
    file = tmp_path / ("x" * 300)

    assert refused(torchspan, file) == f"{file}: File name too long; name another file: --output <file>\n"


@pytest.mark.fault("files", "--output names a device or a pipe")
def test_a_device_and_a_pipe_are_refused_since_they_cannot_be_read_back(torchspan, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reason = "and not a regular file; name another file: --output <file>\n"

    assert refused(torchspan, "/dev/full") == f"/dev/full: it is a device, {reason}"
    assert refused(torchspan, tmp_path / "pipe") == f"{tmp_path}/pipe: it is a named pipe, {reason}"


def test_a_file_without_permission_is_refused(torchspan, tmp_path, monkeypatch):
    def denied(*_):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "x.jsonl").touch()
    monkeypatch.setattr(opening.system, "open", denied)  # root may open every file

    assert refused(torchspan, tmp_path / "x.jsonl") == (
        f"{tmp_path}/x.jsonl: Permission denied; name another file: --output <file>\n"
    )


@pytest.mark.fault("files", "TORCHSPAN_FILE cannot be written")
def test_a_file_of_the_environment_that_cannot_be_written_keeps_no_program_from_its_start(shell, tmp_path):
    """In a job where TORCHSPAN_FILE names a folder, a link or a device, the program was not started."""
    (tmp_path / "link").symlink_to("x.jsonl")
    for file, why in (
        (tmp_path, "Is a directory"),
        (tmp_path / "link", "it is a link, which torchspan does not follow"),
        ("/dev/null", "it is a device, and not a regular file"),
    ):
        environment = {**os.environ, "TORCHSPAN_FILE": str(file)}
        command = ["run", "--quiet", "--", sys.executable, "-c", f"{TRACED}; raise SystemExit(3)"]
        result = shell(*command, env=environment)

        (written,) = shell.folder.glob("torchspan-*.jsonl")
        assert result.returncode == 3
        advice = "name another file: TORCHSPAN_FILE=<file>"
        detour = f"cannot write {file}: {why}; {advice}"
        assert result.stderr == f"torchspan: traces are in {written.name} ({detour}); {WHILE_IT_RUNS}\n"
        assert '"name":"work"' in written.read_text()
        written.unlink()


def test_a_file_that_contains_something_else_than_traces_is_refused(torchspan, tmp_path):
    """`torchspan run --output app.py -- python app.py` appended spans to the program."""
    for name, content in (("app.py", "print(1)\n"), ("config.json", '{"hidden_size": 4}\n')):
        (tmp_path / name).write_text(content)
        assert refused(torchspan, tmp_path / name) == (
            f"{tmp_path / name}: it is not a file of traces, and torchspan appends to no other file; "
            "name another file: --output <file>\n"
        )
        assert (tmp_path / name).read_text() == content


def test_demo_refuses_a_folder_and_draws_nothing(torchspan, tmp_path):
    assert torchspan("demo", "--output", tmp_path) == (
        2,
        "",
        f"torchspan demo: cannot write {tmp_path}: Is a directory; name another file: --output <file>\n",
    )


def test_trying_leaves_nothing_behind(tmp_path):
    _output.named(str(tmp_path / "new" / "folders" / "x-%p.jsonl"), "--output")
    _output.named(str(tmp_path / "x.jsonl"), "--output")

    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_keeps_its_content_and_a_folder_that_is_a_link_is_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.jsonl").write_text(TRACE)
    (tmp_path / "link").symlink_to("folder")
    _output.named(str(tmp_path / "link" / "x.jsonl"), "--output")
    _output.named(str(tmp_path / "link" / "y.jsonl"), "--output")

    assert (tmp_path / "folder" / "x.jsonl").read_text() == TRACE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link"]
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["x.jsonl"]


def test_a_link_is_refused(torchspan, tmp_path):
    (tmp_path / "x.jsonl").write_text(TRACE)
    (tmp_path / "link").symlink_to("x.jsonl")
    (tmp_path / "broken").symlink_to("none/y.jsonl")
    reason = "it is a link, which torchspan does not follow; name another file: --output <file>\n"

    assert refused(torchspan, tmp_path / "link") == f"{tmp_path}/link: {reason}"
    assert refused(torchspan, tmp_path / "broken") == f"{tmp_path}/broken: {reason}"
    assert (tmp_path / "x.jsonl").read_text() == TRACE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "link", "x.jsonl"]


def test_a_file_with_a_second_name_is_refused(torchspan, tmp_path):
    (tmp_path / "mine").touch()
    os.link(tmp_path / "mine", tmp_path / "x.jsonl")

    assert refused(torchspan, tmp_path / "x.jsonl") == (
        f"{tmp_path}/x.jsonl: it has a second name (a hard link); name another file: --output <file>\n"
    )


def test_a_file_of_another_user_is_refused(torchspan, tmp_path):
    file = tmp_path / "x.jsonl"
    if os.geteuid() == 0:
        file.touch()
        os.chown(file, 65534, 65534)
    else:  # root's files are of another user
        file = "/etc/passwd"

    assert refused(torchspan, file) == f"{file}: it belongs to another user; name another file: --output <file>\n"


def elsewhere(shell, tmp_path, *words, **options):
    """stderr of a run without `--output`, and the name of the file that it wrote into the temporary folder."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    result = shell(*words, env={**os.environ, "TMPDIR": str(temporary)}, **options)
    assert result.returncode == 0
    (file,) = temporary.iterdir()
    assert re.fullmatch(r"torchspan-\d{8}T\d{6}Z-\d+-[0-9a-f]{8}\.jsonl", file.name)
    return result.stderr, file


def test_without_output_a_folder_that_cannot_be_written_is_replaced_by_the_temporary_one(shell, tmp_path):
    command = ["run", "--quiet", "--", sys.executable, "-c", TRACED]
    err, file = elsewhere(shell, tmp_path, *command, cwd="/proc")

    assert err == f"torchspan: traces are in {file} ({NO_FOLDER}); {WHILE_IT_RUNS}\n"


@pytest.mark.fault("files", "the current folder is deleted")
def test_without_output_a_current_folder_that_was_deleted_is_replaced_by_the_temporary_one(shell, tmp_path):
    (tmp_path / "gone").mkdir()
    command = ["run", "--quiet", "--", sys.executable, "-c", TRACED]
    err, file = elsewhere(
        shell, tmp_path, *command, cwd=tmp_path / "gone", preexec_fn=lambda: (tmp_path / "gone").rmdir()
    )

    assert err == f"torchspan: traces are in {file} ({NO_FOLDER}); {WHILE_IT_RUNS}\n"


def test_a_relative_name_in_a_deleted_folder_is_refused_and_an_absolute_one_is_written(shell, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    command = ["--quiet", "--", sys.executable, "-c", TRACED]
    relative = shell("run", "--output", "x.jsonl", *command, cwd=gone, preexec_fn=gone.rmdir)
    gone.mkdir()
    absolute = shell("run", "--output", tmp_path / "x.jsonl", *command, cwd=gone, preexec_fn=gone.rmdir)

    assert (relative.returncode, relative.stderr) == (
        2,
        ("torchspan run: cannot write x.jsonl: No such file or directory; name another file: --output <file>\n"),
    )
    assert (absolute.returncode, absolute.stderr) == (0, "")
    assert '"name":"work"' in (tmp_path / "x.jsonl").read_text()


LIMITED = """
import multiprocessing, resource, signal
from opentelemetry import trace
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
with trace.get_tracer("torchspan").start_as_current_span("work"):
    child = multiprocessing.get_context("fork").Process(target=print, args=("child",))
    child.start()
    child.join()
"""


def test_a_program_that_may_write_no_file_is_not_ended_by_what_torchspan_writes(shell):
    """It died of SIGXFSZ, which Python ignores unless the program restores the default."""
    result = shell("run", "--output", "x.jsonl", "--", sys.executable, "-c", LIMITED, env=unmeasured())

    assert (result.returncode, result.stdout) == (0, "child\n")
