# SPDX-License-Identifier: Apache-2.0
"""The page of `torchspan show --html` as a file: its rules, its tables, its data. `test_page_in_browser.py` uses it."""

import base64
import hashlib
import json
import os
import re
import resource
import stat
from importlib import resources

import pytest

from support.device_times import engine_run, layer_table
from support.operator_tables import operator, table
from support.pages_of_traces import Tables, spans_of
from torchspan.base.files import opening
from torchspan.words import semconv

TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.fixture
def page(recording, torchspan, tmp_path):
    """The text of the page of the recorded spans."""

    def page(*words):
        assert torchspan("show", recording.path, "--html", tmp_path / "a.html", *words) == (0, "", "")
        return (tmp_path / "a.html").read_text(encoding="utf-8")

    return page


def test_its_rules_allow_its_one_script_and_its_one_style_alone(recording, page):
    recording.span("work", 0, 1, scope="app")
    text = page()
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    (rules,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)

    def digest(part):
        return f"'sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}'"

    assert rules.split("; ") == [
        "default-src 'none'",
        f"script-src {digest(script)}",
        f"style-src {digest(style)}",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_it_has_no_inline_handler_no_inline_style_and_no_reference(recording, page):
    recording.span("work", 0, 1, scope="app")
    markup = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page(), flags=re.DOTALL)
    assert re.findall(r"\son\w+=|\sstyle=|\ssrc=|url\(|@import", markup) == []
    assert [target for target in re.findall(r'href="([^"]*)"', markup) if not target.startswith("#")] == []


def test_script_and_style_have_at_most_60_kilobytes():
    files = [resources.files("torchspan.reading.views").joinpath(name) for name in ("page.js", "page.css")]
    assert sum(len(file.read_bytes()) for file in files) <= 60_000


def test_the_spans_are_columns_of_numbers_and_texts(recording, page):
    parent = recording.span("torch_tensorrt.compile", 0, 100, {semconv.MODEL_CLASS: "Net"})
    recording.span("later", 20, 30, {"big": 2**60, "list": [1, 2]}, parent=parent, scope="app", events=[("mark", {})])
    document = spans_of(page())
    spans, strings = document["spans"], document["strings"]
    assert [strings[name] for name in spans["name"]] == ["torch_tensorrt.compile", "later"]
    assert [strings[subject] for subject in spans["subject"]] == ["Net", ""]
    assert (spans["parent"], spans["start"]) == ([-1, 0], [0, 20_000_000])
    assert (spans["duration"], spans["inside"]) == ([100_000_000, 10_000_000], [10_000_000, 0])
    attributes = spans["attributes"][1]
    pairs = zip(attributes[::2], attributes[1::2], strict=True)
    assert {strings[key]: value for key, value in pairs} == {"scope": "app", "big": str(2**60), "list": [1, 2]}
    assert [(strings[name], time) for name, time, _ in spans["events"][1]] == [("mark", 20_000_000)]


def test_operators_are_below_their_root_and_change_neither_its_own_time_nor_the_critical_path(recording, page):
    request = recording.span("request", 0, 100, scope="app")
    run = recording.span("torch_tensorrt.execute", 10, 90, table(("aten.linear", 1, 40, 10, 40)), parent=request)
    recording.span("inside", 70, 80, parent=run, scope="app")
    outer = operator(recording, "aten.linear", 20, 60, run)
    operator(recording, "aten.addmm", 30, 60, outer)
    document = spans_of(page())
    spans, strings = document["spans"], document["strings"]
    names = ["request", "torch_tensorrt.execute", "torch.operator aten.linear", "torch.operator aten.addmm", "inside"]
    assert [strings[name] for name in spans["name"]] == names
    assert spans["parent"] == [-1, 0, 1, 2, 1]
    assert [ns // 1_000_000 for ns in spans["inside"]] == [80, 10, 30, 0, 0]
    assert spans["path"] == [0, 0, None, None, 0]
    (rows,) = document["operators"].values()
    assert (list(document["operators"]), [[strings[name], *rest] for name, *rest in rows]) == (
        ["1"],
        [["aten.linear", 1, 0.04, 0.01, 0.04]],
    )


def test_a_run_has_its_time_on_the_device_and_the_layers_of_its_engine(recording, page):
    engine_run(recording, 0, 4, gpu_ms=12, attributes=layer_table(("conv1", 6), ("fc", 2)))
    document = spans_of(page())
    assert document["device"] == {"0": "12.0 ms, launched, still running"}
    (rows,) = document["layers"].values()
    assert [[document["strings"][name], *rest] for name, *rest in rows] == [["conv1", 0.006, 0.75], ["fc", 0.002, 0.25]]


def test_a_key_of_the_table_has_its_sentence(recording, page):
    recording.span("torch_tensorrt.compile", 0, 100, {semconv.MODEL_CLASS: "Net", "mine": 1})
    document = spans_of(page())
    assert {document["strings"][int(key)] for key in document["briefs"]} == {str(semconv.MODEL_CLASS)}
    assert list(document["briefs"].values()) == [semconv.MODEL_CLASS.brief]


def test_the_answers_are_a_table_without_javascript(recording, page):
    frame = {semconv.CODE_FUNCTION: "forward", semconv.CODE_FILE: "model.py", semconv.CODE_LINE: 3}
    recording.span("torch.compile_frame", 0, 100, {**frame, semconv.FRAME_OUTCOME: "compiled"})
    assert Tables(page()).rows[:2] == [
        ["part", "what was compiled", "times", "time", "outcome"],
        ["1", "forward model.py:3", f"{TIMES}1", "100 ms", "compiled"],
    ]


def rows_below(page, title):
    """The rows of the table with a title, its heading first."""
    section = page.partition(f">{title}</h2>")[2].partition("</section>")[0]
    return Tables(section).rows


def test_the_table_of_engines_has_operators_layers_size_times_and_what_the_cache_did(recording, page):
    facts = {semconv.ENGINE_NAME: "_run_on_acc_0", semconv.MODEL_CLASS: "Net", semconv.ENGINE_OPERATORS: 4}
    facts |= {semconv.CACHE_RESULT: "miss", semconv.CACHE_REASON: "other_settings", semconv.ENGINE_SIZE: 279_000}
    convert = recording.span("torch_tensorrt.convert", 0, 500, facts)
    recording.span("tensorrt.build_engine", 100, 400, {semconv.NETWORK_LAYERS: 8}, parent=convert)
    assert rows_below(page(), "TensorRT&#x27;s engines") == [
        ["engine", "model", "operators", "layers", "size", "time", "build", "cache", "reason"],
        ["_run_on_acc_0", "Net", "4", "8", "279 kB", "500 ms", "300 ms", "miss", "other_settings"],
    ]


def test_the_table_of_frames_has_ids_outcomes_reasons_and_breaks(recording, page):
    facts = {semconv.CODE_FUNCTION: "forward", semconv.CODE_FILE: "model.py", semconv.CODE_LINE: 3}
    facts |= {semconv.COMPILE_ID: "0/1", semconv.FRAME_OUTCOME: "compiled", semconv.RECOMPILE_REASON: "x changed"}
    place = {semconv.CODE_FILE: "model.py", semconv.CODE_LINE: 5, semconv.GRAPH_BREAK_CLASS: "builtin"}
    recording.span("torch.compile_frame", 0, 100, facts, events=[(semconv.GRAPH_BREAK_EVENT, place)])
    assert rows_below(page(), "Frames of torch.compile") == [
        ["function", "place", "compile id", "outcome", "time", "compiled again because", "graph breaks"],
        ["forward", "model.py:3", "0/1", "compiled", "100 ms", "x changed", "builtin at model.py:5"],
    ]


def test_settings_that_are_not_the_default_have_a_table(recording, page):
    facts = {semconv.MODEL_CLASS: "Net", semconv.SETTINGS["min_block_size"]: 1, semconv.SETTINGS["dryrun"]: False}
    facts[semconv.SETTINGS["optimization_level"]] = 3
    recording.span("torch_tensorrt.compile", 0, 100, facts)
    assert rows_below(page(), "Settings that are not the default") == [
        ["setting", "value", "default", "model"],
        ["min_block_size", "1", "5", "Net"],
        ["optimization_level", "3", "", "Net"],
    ]


def test_the_defaults_are_those_of_the_library(without_gpu_settings):
    differing = {
        name: (semconv.SETTING_DEFAULTS.get(name), value)
        for name, value in without_gpu_settings.items()
        if name in semconv.SETTINGS and semconv.SETTING_DEFAULTS.get(name) != value and value not in (None, set(), [])
    }
    assert differing == {}


@pytest.fixture
def without_gpu_settings():
    """The settings of a compilation with nothing set, by name."""
    import dataclasses

    from torch_tensorrt.dynamo import CompilationSettings

    return dataclasses.asdict(CompilationSettings())


# --- what is replaced, and what is refused ------------------------------------------------------------------------------
def refusal(torchspan, *words):
    """The message of a command that is refused."""
    status, out, err = torchspan("show", *words)
    assert (status, out) == (2, "")
    return err


@pytest.mark.parametrize("option", ["--html", "--perfetto", "--svg"])
def test_a_file_of_one_of_these_kinds_is_replaced_by_any_of_them(recording, torchspan, tmp_path, option):
    recording.span("work", 0, 1, scope="app")
    target = tmp_path / "out"
    assert torchspan("show", recording.path, option, target)[0] == 0
    for other in ("--perfetto", "--svg", "--html"):
        assert torchspan("show", recording.path, other, target)[0] == 0


@pytest.mark.parametrize("option", ["--html", "--perfetto"])
def test_another_file_an_input_and_a_link_are_refused_and_stay(recording, torchspan, tmp_path, option):
    recording.span("work", 0, 1, scope="app")
    other, link = tmp_path / "other.html", tmp_path / "link.html"
    other.write_text("<!doctype html>\n<html lang='en'>")
    link.symlink_to(other)
    what = "it is not a page, a picture or a Perfetto file that torchspan wrote, and torchspan replaces no other file"
    assert what in refusal(torchspan, recording.path, option, other)
    assert "it is a link, which torchspan does not follow" in refusal(torchspan, recording.path, option, link)
    assert "it is one of the files that are read" in refusal(torchspan, recording.path, option, recording.path)
    assert other.read_text() == "<!doctype html>\n<html lang='en'>"


def test_a_page_stays_where_the_new_one_cannot_be_written(recording, torchspan, tmp_path):
    """It was emptied first, and half of the new one was in it: `ulimit -f`, a full disk."""
    recording.span("work", 0, 1, scope="app")
    page = tmp_path / "page.html"
    assert torchspan("show", recording.path, "--html", page)[0] == 0
    before, limits = page.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_480, limits[1]))
    try:
        message = refusal(torchspan, recording.path, "--html", page)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert f"cannot write {page}: File too large" in message
    assert (page.read_bytes() == before, sorted(os.listdir(tmp_path))) == (True, ["page.html", "trace.jsonl"])


def test_a_write_that_fails_in_the_middle_leaves_the_page_and_nothing_else(recording, torchspan, tmp_path, monkeypatch):
    recording.span("work", 0, 1, scope="app")
    page, write = tmp_path / "page.html", opening.system.write

    def full(number, content):
        if len(content) < 10_000:
            raise OSError(28, "No space left on device")
        return write(number, content[:-9_000])

    assert torchspan("show", recording.path, "--html", page)[0] == 0
    before = page.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(opening.system, "write", full)
        assert "No space left on device" in refusal(torchspan, recording.path, "--html", page)
    assert (page.read_bytes() == before, sorted(os.listdir(tmp_path))) == (True, ["page.html", "trace.jsonl"])


def test_a_page_that_is_replaced_keeps_its_permissions(recording, torchspan, tmp_path):
    recording.span("work", 0, 1, scope="app")
    page = tmp_path / "page.html"
    for _ in range(2):
        assert torchspan("show", recording.path, "--html", page)[0] == 0
        page.chmod(0o640)
    assert torchspan("show", recording.path, "--html", page)[0] == 0
    assert stat.S_IMODE(page.stat().st_mode) == 0o640


@pytest.mark.parametrize(("option", "ending"), [("--html", ".html"), ("--perfetto", ".pftrace"), ("--svg", ".svg")])
def test_a_dash_is_not_the_name_of_a_file(recording, torchspan, tmp_path, monkeypatch, option, ending):
    recording.span("work", 0, 1, scope="app")
    monkeypatch.chdir(tmp_path)
    message = "it is the standard output, and torchspan replaces a file"
    assert refusal(torchspan, recording.path, option, "-") == (
        f"torchspan show: cannot write -: {message}; name another file: {option} <file>{ending}\n"
    )
    assert "--redact takes two files" in refusal(torchspan, "--redact", recording.path, "-")
    assert os.listdir(tmp_path) == ["trace.jsonl"]


def test_of_a_damaged_file_the_rest_is_on_the_page_and_the_status_is_1(recording, torchspan, tmp_path):
    recording.span("torch_tensorrt.compile", 0, 100, {semconv.MODEL_CLASS: "Net"})
    with open(recording.path, "a", encoding="utf-8") as file:
        file.write('{"resourceSpans": [\n')
    status, out, err = torchspan("show", recording.path, "--html", tmp_path / "a.html")
    assert (status, out) == (1, "")
    assert "line 2" in err
    assert Tables((tmp_path / "a.html").read_text()).rows[1][1] == "Net"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--html", "a.html", "--json"], "--html shows traces and --json prints data; leave out one of them"),
        (
            ["--html", "a.html", "--what-leaves"],
            "--html shows traces and --what-leaves lists strings; leave out one of them",
        ),
        (["--perfetto", "a", "--errors"], "--perfetto has every part; leave out --errors"),
        (["--markdown", "--slowest", "3"], "--markdown has every part; leave out --slowest"),
    ],
)
def test_options_that_exclude_each_other_are_refused(recording, torchspan, words, message):
    recording.span("work", 0, 1, scope="app")
    assert message in refusal(torchspan, recording.path, *words)


def test_a_number_of_a_part_is_refused(recording, torchspan, tmp_path):
    recording.span("work", 0, 1, scope="app")
    assert "--html has every part; leave out 1" in refusal(torchspan, "--html", tmp_path / "a", recording.path, "1")


# --- bad input ------------------------------------------------------------------------------------------------------------
HOSTILE = ["</script>", "<!--", "\u2028", "\ud800", "\u202e", "\x00", "\x1b[2J", "]]>", "&amp;", '"', "'"]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_hostile_text_is_in_the_data_as_text_and_nowhere_as_markup(recording, torchspan, tmp_path, text):
    recording.span("work", 0, 1, scope="app")
    with open(recording.path, encoding="utf-8") as file:
        line = json.loads(file.readline())
    span = line["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    span["name"] = f"name {text}"
    span["attributes"] = [{"key": f"key {text}", "value": {"stringValue": f"value {text}"}}]
    (tmp_path / "hostile.jsonl").write_text(json.dumps(line) + "\n")
    assert torchspan("show", tmp_path / "hostile.jsonl", "--html", tmp_path / "a.html")[0] == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    document = spans_of(page)
    shown = text if text.isprintable() else ascii(text)[1:-1]
    assert document["strings"][document["spans"]["name"][0]] == f"name {shown}"
    assert document["spans"]["attributes"][0][-1] == f"value {shown}"
    assert (page.count("<script"), page.count("</script>")) == (2, 2)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 2**63 - 1, -(2**63)])
def test_a_number_that_json_or_javascript_lacks_is_text(recording, page, value):
    recording.span("work", 0, 1, {"n": value}, scope="app")
    assert spans_of(page())["spans"]["attributes"][0][-1] == str(value)


# --- what leaves ----------------------------------------------------------------------------------------------------------
CANARY = "the canary sings at noon"


@pytest.mark.parametrize("option", ["--html", "--perfetto", "--markdown"])
def test_the_whole_texts_of_a_file_are_shown_with_text_alone(recording, torchspan, tmp_path, option):
    key = f"{semconv.LOCAL}{semconv.event_text_key(0, semconv.EXCEPTION_MESSAGE)}"
    recording.span("torch_tensorrt.compile", 0, 1, {key: CANARY}, error=("ValueError", "?"))

    def written(*words):
        target = [] if option == "--markdown" else [tmp_path / "out"]
        status, out, _ = torchspan("show", recording.path, option, *target, *words)
        assert status == 0
        if option == "--html":
            return page_and_data((tmp_path / "out").read_text(encoding="utf-8"))
        return out if option == "--markdown" else (tmp_path / "out").read_bytes().decode("utf-8", "replace")

    assert CANARY not in written()
    assert CANARY in written("--text")


def page_and_data(page):
    return page + json.dumps(spans_of(page))
