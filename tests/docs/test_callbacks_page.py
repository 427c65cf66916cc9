# SPDX-License-Identifier: Apache-2.0
"""The pages about callbacks and observers: programs print what is below them, and the table has every name of the header."""

import importlib.util
import re
import subprocess
import sys
import threading
from importlib.metadata import version
from pathlib import Path

import pytest

from support.child import unmeasured
from torchspan import callbacks, observers

DOCS = Path(__file__).resolve().parents[2] / "docs"
CALLBACKS, OBSERVERS, REFERENCE = (
    (DOCS / name).read_text(encoding="utf-8")
    for name in ("tutorial/callbacks.md", "tutorial/observers.md", "reference/record-function.md")
)
PROGRAM = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = [*PROGRAM.findall(CALLBACKS), *PROGRAM.findall(OBSERVERS)]
HEADER = Path(importlib.util.find_spec("torch").submodule_search_locations[0]) / "include/ATen/record_function.h"
TABLE = REFERENCE[REFERENCE.index("| ATen/record_function.h |") : REFERENCE.index("## Names that the header")]
ROWS = re.findall(r"^\| (`.*?`) \| (.*) \|$", TABLE, re.MULTILINE)
NAMES = {name: here for names, here in ROWS for name in re.findall(r"`(\w+)`", names)}


def test_every_program_of_the_pages_has_its_output_below():
    assert [len(PROGRAM.findall(page)) for page in (CALLBACKS, OBSERVERS, REFERENCE)] == [8, 4, 0]
    assert [page.count("```python\n") for page in (CALLBACKS, OBSERVERS, REFERENCE)] == [8, 4, 0]


@pytest.mark.parametrize(
    ("program", "output"),
    [  # programs that compile take ten seconds each
        pytest.param(*pair, id=str(index), marks=pytest.mark.slow if "torch_tensorrt" in pair[0] else ())
        for index, pair in enumerate(PROGRAMS)
    ],
)
def test_a_program_prints_what_stands_below_it(program, output):
    clean = {name: value for name, value in unmeasured().items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    warnings_are = "ignore" if "torch_tensorrt" in program else "error"  # what the libraries warn of is theirs
    done = subprocess.run(
        [sys.executable, "-W", warnings_are, "-c", program],
        env={**clean, "TORCHSPAN_WITHOUT_GPU": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == output


def test_the_program_about_scopes_warns_of_the_phase_that_nothing_fires():
    (program,) = [each for each, _ in PROGRAMS if "BUILD_ENGINE" in each]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.startswith("WARNING A callback was registered on tensorrt.build_engine, which nothing fires")


# --- the header -----------------------------------------------------------------------------------------------
def declared(text):
    """Public names of a C++ header, as (name, names around it): a reader of declarations, which is all a header has."""
    macros = re.findall(r"^#define (\w+)\(", text, re.MULTILINE)
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    text = re.sub(r"^#(?:.*\\\n)*.*$", "", text, flags=re.MULTILINE)
    yield from ((name, ()) for name in macros)
    around, head = [], ""  # around: [kind, name, is public]
    for character in text:
        if character not in "{};:":
            head += character
        elif character == ":":
            access = head.strip().rpartition("\n")[2].strip()
            if access in {"public", "private", "protected"} and around:
                around[-1][2] = access == "public"
                head = ""
            else:
                head += character
        elif character == "}":
            if around and around[-1][0] == "enum":
                yield from ((name, ()) for name in re.findall(r"(\w+)(?:\s*=\s*\d+)?\s*(?:,|$)", head))
            if around:
                around.pop()
            head = ""
        else:
            is_open = not around or all(kind in {"namespace", "class"} and public for kind, _, public in around)
            names = tuple(name for _, name, _ in around)
            kind, name = what(head, names)
            if is_open and name and kind != "namespace":
                yield name, names
            if character == "{":
                is_class = re.search(r"\bclass\b", head) is not None
                around.append([kind, name, not (kind == "class" and is_class)])
                head = ""
            else:
                head = ""


def what(head, around):
    """Kind and name of what a declaration declares; no name where it declares nothing of its own."""
    head = re.sub(r"template\s*<[^<>]*(?:<[^<>]*>)?[^<>]*>", "", head)
    head = re.sub(r"\b(?:TORCH_API|C10_API_ENUM|explicit|virtual|static|extern|inline)\b", "", head).strip()
    if head.startswith("friend") or re.search(r"\boperator\b", head):
        return "body", None
    for kind, pattern in (
        ("namespace", r"^namespace(?: (\w+))?"),
        ("enum", r"^enum class\s+(\w+)"),
        ("class", r"^(?:struct|class)\s+(\w+)"),
        ("type", r"^using (\w+)\s*="),
        ("type", r"^typedef .*?(\w+)$"),
        ("body", r"^[^(=]*?(\w+)\s*\("),
    ):
        found = re.match(pattern, head, re.DOTALL)
        if found:
            name = found[1] or ""
            is_constructor = name in around or name.startswith("~") or "~" in head.split("(")[0]
            return kind, None if is_constructor else name
    found = re.match(r"^(?:constexpr|const) .*?(\w+)(?:\s*=.*|\s*)$", head, re.DOTALL)
    return "body", found[1] if found else None


@pytest.fixture(scope="module")
def header():
    if not HEADER.exists():
        pytest.fail("this torch brings no header: the table has nothing to be held against")
    found = set(declared(HEADER.read_text(encoding="utf-8")))
    return {name for name, around in found if "detail" not in around and "c10" not in around}


def test_the_reader_finds_what_it_must(header):
    assert header >= {
        "RecordScope", "USER_SCOPE", "NUM_SCOPES", "RecordFunctionCallback", "samplingProb", "checkScope", "RecordFunction",
        "seqNr", "_setAsync", "addGlobalCallback", "CallbackHandle", "INVALID_CALLBACK_HANDLE", "RECORD_FUNCTION",
        "RECORD_OUTPUTS", "set_record_function_seed_for_testing", "get_record_function_tls_", "StepCallbacks", "StartEndPair",
    }  # fmt: skip
    assert not header & {"inputs_", "sampling_prob_", "runStartCallbacks", "record_function_with_scope", "for", "if"}


def test_every_public_name_of_the_header_is_a_row(header):
    assert header - NAMES.keys() == set()


@pytest.mark.skipif(not version("torch").startswith("2.14"), reason="the table is that of torch 2.14's header")
def test_every_row_is_a_public_name_of_the_header(header):
    assert NAMES.keys() - header == set()


def exists(path):
    """Whether `RecordFunction.inputs` and its like are there; what only a record has is seen on a record."""
    first, _, rest = path.partition(".")
    holder = getattr(callbacks, first, None)
    fields = {*getattr(holder, "__dataclass_fields__", ()), *dir(holder)}
    if holder is callbacks.RecordFunction:
        fields.update(vars(callbacks.RecordFunction()))
    return holder is not None and (not rest or rest in fields)


def test_every_row_says_what_it_is_here_or_why_it_is_not():
    for name, here in NAMES.items():
        path = re.match(r"`([\w.]+)`", here)
        if path:
            assert path[1] == "int" or exists(path[1]), name
        else:
            assert re.match(r"no meaning: [\w`]|part of `|whatever `start` returns", here), name


def difference(subject):
    """What a row of the table of differences says of torchspan."""
    (here,) = re.findall(rf"^\| {re.escape(subject)} \| (.*?) \|", REFERENCE, re.MULTILINE)
    return here


def test_a_boolean_probability_is_refused_as_the_table_of_differences_says():
    assert difference("`sampling_prob=True`") == "TypeError"
    with pytest.raises(TypeError, match="sampling_prob"):
        callbacks.RecordFunctionCallback(print, sampling_prob=True)


def test_a_thread_starts_with_callbacks_disabled_as_the_table_of_differences_says():
    assert difference("a thread that starts while callbacks are disabled") == "callbacks stay disabled in it"
    states = []
    with callbacks.DisableRecordFunctionGuard():
        thread = threading.Thread(target=lambda: states.append(callbacks.is_record_function_enabled()))
        thread.start()
        thread.join()
    assert states == [False]


def test_every_public_name_is_on_a_page():
    pages = CALLBACKS + OBSERVERS + REFERENCE
    assert [name for name in (*callbacks.__all__, *observers.__all__) if f"`{name}" not in pages] == []


def test_the_program_about_failures_logs_once_that_a_callback_fails_and_once_that_it_ends():
    (program,) = [each for each, _ in PROGRAMS if "fails" in each]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, last = done.stderr.splitlines()
    assert re.fullmatch(
        r"WARNING callback \d+ \(fails\) of Observer\('on_batch'\) failed: ValueError in <string>, line 9\. The program "
        r"continues\. 2 more failures disable it\. The traceback is logged at INFO\.",
        first,
    )
    assert re.fullmatch(
        r"ERROR callback \d+ \(fails\) of Observer\('on_batch'\) failed 3 times and has been disabled\.", last
    )
