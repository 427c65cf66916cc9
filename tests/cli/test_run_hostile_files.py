# SPDX-License-Identifier: Apache-2.0
"""`torchspan run` where others can put files: into the folder of its output, and into the one for temporary files."""

import os
import shutil
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from torchspan.cli import _run_folder as _scratch
from torchspan.cli._command import CommandError

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no links, pipes and owners")
TRACED = "from opentelemetry import trace; trace.get_tracer('torchspan').start_span('work').end()"


def run(shell, *words, program=TRACED, **variables):
    command = ["run", *words, "--", sys.executable, "-c", textwrap.dedent(program)]
    return shell(*command, env={**os.environ, **variables})


# --- what is at the names of a run's files ------------------------------------------------------------------------


def test_a_pipe_under_a_name_of_the_family_is_not_read(shell, tmp_path):
    os.mkfifo(tmp_path / "t-1.jsonl")
    result = run(shell, "--output", tmp_path / "t-%p.jsonl")
    assert (result.returncode, " · exit 0\n" in result.stderr) == (0, True)
    assert f"torchspan: cannot read {tmp_path}/t-1.jsonl: it is a named pipe, and not a regular file\n" in result.stderr


def test_a_link_to_a_device_without_an_end_is_not_read(shell, tmp_path):
    (tmp_path / "t-1.jsonl").symlink_to("/dev/zero")
    result = run(shell, "--output", tmp_path / "t-%p.jsonl")
    assert (result.returncode, " · exit 0\n" in result.stderr) == (0, True)
    assert f"cannot read {tmp_path}/t-1.jsonl: it is a link, which torchspan does not follow\n" in result.stderr


def test_a_link_to_nothing_keeps_no_run_from_its_start(shell, tmp_path):
    (tmp_path / "t-1.jsonl").symlink_to(tmp_path / "nowhere")
    result = run(shell, "--output", tmp_path / "t-%p.jsonl", program=f"{TRACED}; raise SystemExit(3)")
    assert (result.returncode, (tmp_path / "nowhere").exists()) == (3, False)


PLANTING = """
import os
os.mkfifo(f"t-{os.getpid()}.jsonl")
from opentelemetry import trace; trace.get_tracer('torchspan').start_span('work').end()
"""


@pytest.mark.fault(
    "files", "a pipe is put in its place before the first span", lost="1 span", counted="the last line of torchspan run"
)
def test_a_pipe_that_is_placed_while_the_program_runs_is_the_reason_that_nothing_was_recorded(shell):
    result = run(shell, "--output", "t-%p.jsonl", program=PLANTING)
    assert result.returncode == 0
    assert "nothing was recorded: 1 of 1 spans are missing from the file: " in result.stderr
    assert result.stderr.endswith("it is a named pipe, and not a regular file\n")


def test_the_file_of_a_run_is_for_its_owner_alone_unless_the_mode_says_otherwise(shell):
    run(shell, "--output", "private.jsonl")
    run(shell, "--output", "shared.jsonl", TORCHSPAN_FILE_MODE="640")
    modes = [stat.S_IMODE((shell.folder / f"{name}.jsonl").stat().st_mode) for name in ("private", "shared")]
    assert modes == [0o600, 0o640]


LOCKING = f"""
import fcntl
held = open("run.jsonl", "a")
fcntl.flock(held, fcntl.LOCK_EX)
{TRACED}
fcntl.flock(held, fcntl.LOCK_UN)
"""


def test_what_was_written_to_a_locked_file_is_drawn(shell):
    result = run(shell, "--output", "run.jsonl", program=LOCKING)
    assert "\n1  work  " in result.stderr


# --- the folder for reports ---------------------------------------------------------------------------------------

OUTLIVING = """
import json, os, sys, time
folder = json.loads(os.environ["TORCHSPAN_RUN"])["reports"]
print(folder, flush=True)
if os.fork() == 0:
    os.setsid()
    if "closes" in sys.argv:
        os.closerange(3, 256)
    while os.path.exists(folder):  # the run continues
        time.sleep(0.01)
    os.mkdir(folder)  # as another user may, once it is gone
    for name in (f"{os.getpid()}.new", f"{os.getpid()}.json", f"{os.getpid()}.crash"):
        os.symlink(os.path.abspath("victim"), os.path.join(folder, name))
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    sys.exit()  # writes the report
"""


@pytest.mark.parametrize("words", [(), ("closes",)])
def test_a_process_that_outlives_its_run_writes_through_no_link_and_leaves_nothing(shell, tmp_path, words):
    (shell.folder / "victim").write_text("precious")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = ["run", "--quiet", "--", sys.executable, "-c", f"{TRACED}\n{OUTLIVING}", *words]
    result = shell(*command, env={**os.environ, "TMPDIR": str(temporary)})  # returns when the last process has ended
    folder = Path(result.stdout.strip())
    assert [path.name for path in temporary.iterdir()] == [folder.name]
    if os.geteuid() == 0:  # only root can give the folder to another user
        assert [path.is_symlink() for path in folder.iterdir()] == [True] * 3
    assert (shell.folder / "victim").read_text() == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_swapped_folder_for_reports_is_neither_read_nor_removed(shell, tmp_path):
    swapping = """
        import json, os
        folder = json.loads(os.environ["TORCHSPAN_RUN"])["reports"]
        os.rename(folder, folder + ".moved")
        os.mkdir(folder)
        with open(f"{folder}/{os.getpid()}.json", "w") as file:
            file.write('{"planted": true}')
        os.mkfifo(f"{folder}/1.json")
        os.chown(folder, 65534, 65534)
    """
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    result = run(shell, program=swapping, TMPDIR=str(temporary))
    (folder,) = [path for path in temporary.iterdir() if not path.name.endswith(".moved")]
    assert result.returncode == 0
    assert "nothing was recorded: no Python process" in result.stderr, "the report was read"
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".json"]


def test_reports_and_the_folder_are_for_their_owner_alone(shell):
    looking = """
        import json, os, stat, atexit
        folder = json.loads(os.environ["TORCHSPAN_RUN"])["reports"]
        paths = [folder, *(os.path.join(folder, name) for name in os.listdir(folder))]
        print(sorted(oct(stat.S_IMODE(os.stat(path).st_mode)) for path in paths))
    """
    before = os.umask(0)
    try:
        assert run(shell, program=looking).stdout == "['0o600', '0o600', '0o600', '0o700']\n"
    finally:
        os.umask(before)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder for temporary files, in which everybody may write and rename."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_that_is_swapped_right_after_it_was_made_is_not_used(temporary, monkeypatch):
    (temporary / "precious").mkdir()
    (temporary / "precious" / "file").touch()
    made = _scratch.tempfile.mkdtemp

    def swapped(**options):
        path = made(**options)
        os.rmdir(path)
        os.symlink(temporary / "precious", path)
        return path

    monkeypatch.setattr(_scratch.tempfile, "mkdtemp", swapped)
    with pytest.raises(CommandError, match="cannot make a temporary folder"), _scratch.scratch_folder():
        pass
    assert (temporary / "precious" / "file").exists()


def test_what_is_put_in_place_of_the_folder_is_not_removed(temporary):
    (temporary / "precious").mkdir()
    (temporary / "precious" / "file").touch()
    with _scratch.scratch_folder() as folder:
        os.rename(folder.path, temporary / "moved")
        os.rename(temporary / "precious", folder.path)
    assert os.listdir(folder.path) == ["file"]


KILLED = """
import os, sys
from torchspan.cli import _run_folder as _scratch
with _scratch.scratch_folder() as folder:
    folder.write("1.json", b"a report")
    if "precious" in sys.argv:
        os.mkdir(f"{folder.path}/precious")
    print(folder.path, flush=True)
    os.kill(os.getpid(), 9)
"""


def left_by_a_killed_run(temporary, *words):
    command = [sys.executable, "-c", KILLED, *words]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    result = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    return Path(result.stdout.strip())


def test_a_users_folder_with_the_same_beginning_is_kept_with_its_content(shell, tmp_path):
    """`torchspan run` removed each folder torchspan-run-* of the user, with everything in it."""
    for name in ("torchspan-run-results", "torchspan-run-abcdefgh"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "1.json").write_text("precious")
        (tmp_path / name / "deep" / "model.pt").write_text("precious")
    run(shell, TMPDIR=str(tmp_path))
    kept = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("torchspan-run-*/**/*"))
    assert kept == [
        f"torchspan-run-{name}/{file}"
        for name in ("abcdefgh", "results")
        for file in ("1.json", "deep", "deep/model.pt")
    ]


def test_a_folder_of_a_killed_run_is_removed_and_a_link_or_a_copy_of_it_is_not(temporary):
    left = left_by_a_killed_run(temporary)
    shutil.copytree(left, temporary / "torchspan-run-results")
    shutil.copytree(left, temporary / "precious")
    (temporary / "torchspan-run-linklink").symlink_to(temporary / "precious")
    with _scratch.scratch_folder():
        pass
    remaining = sorted(path.name for path in temporary.iterdir())
    assert remaining == ["precious", "torchspan-run-linklink", "torchspan-run-results"]
    assert sorted(os.listdir(temporary / "precious")) == [".torchspan-run", "1.json"]


def test_a_folder_of_a_run_that_lasts_is_kept(temporary):
    with _scratch.scratch_folder() as used:
        used.write("1.json", b"a report")
        with _scratch.scratch_folder():
            pass
        assert sorted(used.names()) == [".torchspan-run", "1.json"]
    assert list(temporary.iterdir()) == []


def test_what_the_user_put_into_the_folder_of_a_killed_run_stays(temporary):
    left = left_by_a_killed_run(temporary, "precious")
    for _ in range(2):
        with _scratch.scratch_folder():
            pass
    assert os.listdir(left) == ["precious"]
