# SPDX-License-Identifier: Apache-2.0
"""The page of `torchspan show --html` in a browser, used by keys, mouse and addresses."""

import pytest
from opentelemetry import trace

from support.device_times import engine_run, layer_table
from support.operator_tables import operator, table
from support.pages_of_traces import OpenPage, write
from support.recording import Recording
from support.run_recording import RunRecording
from torchspan import traces
from torchspan.reading.answers.units import duration
from torchspan.words import semconv

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.once("a browser shows the page")]

MARKUP = "</script><img src=x onerror=alert(1)> &amp;"
STEPS_NS = [
    0,
    1,
    999,
    1_000,
    9_994,
    9_995,
    9_996,
    12_250_000,
    12_750_000,
    99_949_999,
    99_950_000,
    999_500_000,
    999_499_999,
]
STEPS_NS += [
    1_125_000_000,
    1_375_000_000,
    9_995_000_000,
    59_999_999_999,
    99_949_999_999,
    99_950_000_000,
    119_500_000_000,
]
STEPS_NS += [
    120_500_000_000,
    3_599_499_999_999,
    3_599_500_000_000,
    5_430_000_000_000,
    359_999 * 10**9,
    36 * 10**13,
    864 * 10**14,
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file with two traces: a request with a compilation that failed, and one that links to it."""
    folder = tmp_path_factory.mktemp("page")
    recording = Recording(folder / "trace.jsonl")
    request = recording.span("GET /predict", 0, 1000, {"http.route": MARKUP}, scope="app")
    events = [(semconv.GRAPH_BREAK_EVENT, {semconv.GRAPH_BREAK_CLASS: "builtin", semconv.CODE_FILE: "model.py"})]
    frame = {semconv.CODE_FUNCTION: "forward", semconv.COMPILE_ID: "0/0", semconv.FRAME_OUTCOME: "compiled"}
    recording.span("torch.compile_frame", 100, 300, frame, parent=request, events=events)
    compilation = recording.span(
        "torch_tensorrt.compile",
        400,
        900,
        {semconv.MODEL_CLASS: "Net"},
        parent=request,
        error=("ValueError", "no room"),
    )
    recording.span("tensorrt.build_engine", 500, 800, {semconv.ENGINE_SIZE: 1000}, parent=compilation)
    recording.span("overlaps", 600, 950, parent=request, scope="app")
    return folder, recording.path, request


@pytest.fixture(scope="module")
def page(files, browser):
    folder, file, _ = files
    return OpenPage(browser, write(folder / "a.html", file))


@pytest.fixture(autouse=True)
def unchanged(page):
    """Each test begins with the page as it was loaded."""
    page.reopen()


def test_the_page_reports_no_error_and_asks_for_nothing(page):
    assert page.browser.errors == []
    assert {address.partition("#")[0] for address in page.browser.requested} <= {page.path.as_uri(), "about:blank"}


def test_the_tree_has_every_span_with_its_times(page):
    page.push("#open-all")
    assert page.rows() == [
        (1, "GET /predict", "1.00 s", "250 ms"),
        (2, "torch.compile_frame · forward 0/0", "200 ms", "200 ms"),
        (2, "torch_tensorrt.compile · Net", "500 ms", "200 ms"),
        (3, "tensorrt.build_engine", "300 ms", "300 ms"),
        (2, "overlaps", "350 ms", "350 ms"),
    ]


def test_the_timeline_has_a_line_for_each_depth_and_lane(page):
    assert page.texts("#labels text.thread") == ["app.py · main thread"]
    names = page.bar_names()
    assert names == [
        "GET /predict",
        "torch.compile_frame",
        "torch_tensorrt.compile",
        "tensorrt.build_engine",
        "overlaps",
    ]


def test_arrows_walk_the_tree_and_close_and_open_its_branches(page):
    page.focus("#tree-rows tr")
    walked = []
    for key in (
        "ArrowDown",
        "ArrowDown",
        "ArrowDown",
        "ArrowLeft",
        "ArrowLeft",
        "ArrowDown",
        "ArrowUp",
        "ArrowRight",
        "ArrowRight",
    ):
        page.browser.press(key)
        walked.append((page.selected() or "").partition(" ·")[0])
    assert walked == [
        "GET /predict",
        "torch.compile_frame",
        "torch_tensorrt.compile",
        "torch_tensorrt.compile",  # closed
        "GET /predict",
        "torch.compile_frame",
        "GET /predict",
        "torch.compile_frame",
        "torch.compile_frame",
    ]


def test_enter_opens_a_span_and_escape_closes_it(page):
    page.focus("#tree-rows tr")
    page.browser.press("End")
    page.browser.press("Enter")
    assert page.text("#details h3") == "overlaps · 350 ms"
    page.browser.press("Escape")
    assert not page.is_shown("#details")


def test_a_span_has_its_attributes_with_what_they_mean_its_events_and_its_process(page):
    page.reopen(page_address(page, "torch.compile_frame"))
    details = page.text("#details")
    brief = next(row.brief for row in semconv.ATTRIBUTES if row == semconv.COMPILE_ID)
    assert brief in details
    assert "Event torch.compile.graph_break · + 100 ms" in details
    assert "service.name\tapp.py" in details


def page_address(page, name):
    """The address of the only span of a name in the file next to the page."""
    span = traces.read(page.path.parent / "trace.jsonl").one(name)
    return f"#span={span.trace_id}.{span.span_id}"


def test_an_address_opens_its_span_again(page):
    page.reopen(page_address(page, "tensorrt.build_engine"))
    assert page.selected() == "tensorrt.build_engine"
    assert page.text("#details h3") == "tensorrt.build_engine · 300 ms"


def test_a_click_on_a_bar_opens_its_span(page):
    left, top = page.middle("#timeline")
    page.browser.click(left + 300, top)  # in the fourth line: 18 pixels each
    assert page.text("#details h3") == "tensorrt.build_engine · 300 ms"


@pytest.mark.parametrize(
    ("text", "count", "name"),
    [
        ("BUILD_ENG", "1 of 5 spans", "tensorrt.build_engine"),
        ("net", "1 of 5 spans", "torch_tensorrt.compile · Net"),
        ("torch.compile.graph_break.class=builtin", "1 of 5 spans", "torch.compile_frame · forward 0/0"),
        ("no room", "1 of 5 spans", "torch_tensorrt.compile · Net"),
        ("nowhere", "0 of 5 spans", None),
    ],
)
def test_a_search_finds_names_attributes_and_events_with_their_number(page, text, count, name):
    page.browser.press("/")
    page.browser.type(text)
    page.browser.press("Enter")
    assert (page.text("#count"), page.selected()) == (count, name)


def test_plus_and_minus_zoom_and_zero_shows_the_whole_trace(page):
    whole = page.ticks()
    page.focus("#timeline")
    page.browser.press("+")
    nearer = page.ticks()
    page.browser.press("-")
    assert page.ticks() == whole
    page.browser.press("+")
    page.browser.press("+")
    page.browser.press("0")
    assert nearer != whole == page.ticks()


def test_the_wheel_zooms_at_the_pointer_and_a_drag_pans(page):
    whole = page.ticks()
    left, top = page.middle("#timeline")
    for _ in range(4):
        page.browser.mouse("mouseWheel", left, top, deltaX=0, deltaY=-100)
    zoomed = page.ticks()
    page.browser.mouse("mousePressed", left, top, buttons=1, clickCount=1)
    page.browser.mouse("mouseMoved", left - 200, top, buttons=1)
    page.browser.mouse("mouseReleased", left - 200, top, buttons=0)
    assert len({tuple(whole), tuple(zoomed), tuple(page.ticks())}) == 3


def test_buttons_zoom_and_pan_too(page):
    whole = page.ticks()
    page.push("#zoom-in")
    page.push("#pan-left")
    page.push("#pan-left")
    assert (page.ticks()[0], page.ticks()[-1]) == ("0", "500 ms")
    page.push("#pan-right")
    assert page.ticks()[0] != "0"
    page.push("#zoom-all")
    assert page.ticks() == whole


def test_a_row_of_the_answers_leads_to_its_span(page):
    page.push("tbody th a")
    assert page.text("#details h3") == "torch_tensorrt.compile · Net · 500 ms"
    page.browser.press("Escape")
    page.push("tbody th a")
    assert page.is_shown("#details")
    assert page.selected() == "torch_tensorrt.compile · Net"


def test_texts_of_the_file_are_text_and_never_markup(page):
    page.focus("#tree-rows tr")
    page.browser.press("Enter")
    assert MARKUP in page.text("#details")
    assert page.browser.evaluate("document.images.length + document.querySelectorAll('script').length") == 2


def test_the_critical_path_has_the_work_that_decided_when_the_trace_ended(page):
    assert [row.split("\t") for row in page.texts("#path tr")] == [
        ["GET /predict · 1.00 s", "450 ms", "45 %"],
        ["torch.compile_frame · forward 0/0 · 200 ms", "200 ms", "20 %"],
        ["overlaps · 350 ms", "350 ms", "35 %"],
    ]


def test_the_rules_of_the_page_forbid_every_request(page):
    blocked = page.browser.evaluate(
        "new Promise((done) => { document.addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective));"
        "const image = new Image(); image.src = 'http://127.0.0.1:9/x.png'; })"
    )
    page.browser.errors.clear()
    assert blocked == "img-src"


@pytest.mark.parametrize(("scheme", "color"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(13, 17, 23)")])
def test_the_page_follows_the_palette_of_the_system(page, scheme, color):
    page.browser.prefer(prefers_color_scheme=scheme)
    assert page.browser.evaluate("getComputedStyle(document.body).backgroundColor") == color
    page.browser.prefer()


def test_nothing_moves_by_itself(page):
    page.push("#zoom-in")
    style = page.browser.evaluate("document.querySelector('style').textContent")
    assert page.browser.evaluate("document.getAnimations().length") == 0
    assert "transition" not in style and "animation" not in style and "smooth" not in style


def test_the_focus_is_visible(page):
    page.browser.press("Tab")
    outline = page.browser.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_without_javascript_the_answers_and_the_waterfall_are_there(page):
    page.browser.allow_scripts(allowed=False)
    page.browser.open("about:blank")
    page.browser.open(page.path.as_uri())
    shown = page.texts("table tr")[1].split("\t"), page.text("pre")[:30], page.is_shown("#explore")
    page.browser.allow_scripts(allowed=True)
    assert shown == (
        ["1", "Net", "\N{MULTIPLICATION SIGN}1", "500 ms", "failed"],
        "trace abc000000000000000000000",
        False,
    )


def test_the_page_can_be_printed(page):
    assert page.browser.pdf().startswith(b"%PDF-")


def test_times_are_those_of_the_terminal(browser, tmp_path):
    recording = Recording(tmp_path / "trace.jsonl")
    for ns in STEPS_NS:
        recording.span(f"lasts {ns}", 0, ns / 1e6, scope="app")
    page = OpenPage(browser, write(tmp_path / "a.html", recording.path))
    times = {}
    for index in range(len(STEPS_NS)):
        browser.evaluate(
            f"const s = document.querySelector('#traces'); s.value = {index}; s.dispatchEvent(new Event('change'))"
        )
        ((_, name, time, own),) = page.rows()
        times[int(name.partition(" ")[2])] = (time, own)
    written = {int(span.name.split()[1]): span.duration_ns for span in traces.read(recording.path).spans}
    assert times == {ns: (duration(lasted), duration(lasted)) for ns, lasted in written.items()}


def test_a_link_leads_to_its_span_in_another_trace(browser, tmp_path):
    recording = RunRecording(tmp_path / "trace.jsonl")
    export = recording.span("torch.export", 0, 10)
    elsewhere = trace.SpanContext(7, 9, is_remote=False)
    recording.span("torch_tensorrt.compile", 20, 40, links=[export.get_span_context(), elsewhere])
    page = OpenPage(browser, write(tmp_path / "a.html", recording.path))
    browser.evaluate("const s = document.querySelector('#traces'); s.value = 1; s.dispatchEvent(new Event('change'))")
    page.focus("#tree-rows tr")
    browser.press("Enter")
    assert (
        "Link to span 0000000000000009 of trace 00000000000000000000000000000007, which is not in this file"
        in page.text("#details")
    )
    page.push("#details a[href^='#span']")
    browser.wait_for("document.querySelector('#details h3').innerText.startsWith('torch.export')")
    assert page.selected() == "torch.export"


def test_a_root_has_its_operators_as_a_table_and_their_spans_below_it(browser, tmp_path):
    recording = Recording(tmp_path / "trace.jsonl")
    facts = table((MARKUP, 24, 70, 61, 9), ("aten.relu", 2, 0.5, 0.5, 0.25))
    run = recording.span("torch_tensorrt.execute", 0, 100, facts)
    operator(recording, "aten.relu", 10, 20, operator(recording, "aten.linear", 10, 30, run))
    page = OpenPage(browser, write(tmp_path / "a.html", recording.path))
    page.push("tbody th a")
    lines = page.text("#details").partition("Operators\n")[2].partition("Attributes")[0].split("\n")
    assert [line.strip() for line in lines if line.strip()] == [
        "operator\ttimes\ttime\town\tlongest",
        f"{MARKUP}\t24\t70.0 ms\t61.0 ms\t9.00 ms",
        "aten.relu\t2\t500 µs\t500 µs\t250 µs",
    ]
    page.push("#open-all")
    assert page.rows() == [
        (1, "torch_tensorrt.execute", "100 ms", "100 ms"),
        (2, "torch.operator aten.linear", "20.0 ms", "10.0 ms"),
        (3, "torch.operator aten.relu", "10.0 ms", "10.0 ms"),
    ]


def test_a_run_has_its_time_on_the_device_below_that_of_the_host_and_its_layers_as_a_table(browser, tmp_path):
    recording = Recording(tmp_path / "trace.jsonl")
    engine_run(recording, 0, 4, gpu_ms=12, attributes=layer_table((MARKUP, 6), ("fc", 2)))
    page = OpenPage(browser, write(tmp_path / "a.html", recording.path))
    page.push("tbody th a")
    lines = [line.strip() for line in page.text("#details").partition("Attributes")[0].split("\n") if line.strip()]
    assert lines[-8:] == [
        "duration\t4.00 ms",
        "on the device\t12.0 ms, launched, still running",
        "own time\t4.00 ms",
        "start\t+ 0 ns",
        "Layers, in runs that waited for the device",
        "layer\tmedian\tshare",
        f"{MARKUP}\t6.00 ms\t75 %",
        "fc\t2.00 ms\t25 %",
    ]


def test_an_unfinished_span_has_a_lower_bound_and_each_process_has_its_lines(browser, tmp_path):
    recording = RunRecording(tmp_path / "trace.jsonl")
    opened = recording.start("torch_tensorrt.compile", 0)
    recording.span("torch_tensorrt.trace", 0, 50, parent=opened)
    worker = RunRecording(tmp_path / "trace.jsonl", service="worker.py", first_id=100)
    worker.span("torch.compile_worker", 60, 90, parent=opened)
    page = OpenPage(browser, write(tmp_path / "a.html", recording.path))
    assert next(row[:3] for row in page.rows()) == (1, "torch_tensorrt.compile", "≥ 90.0 ms")
    assert [name.partition(" ")[0] for name in page.texts("#labels text.thread")] == ["app.py", "worker.py"]
