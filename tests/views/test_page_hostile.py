# SPDX-License-Identifier: Apache-2.0
"""Pages of files that were written to break them, in a browser."""

import json

import pytest

from support.pages_of_traces import OpenPage, write
from support.run_recording import START_NS

pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium"), pytest.mark.once("a browser shows the page")]

TRACE = "ab" * 16
YEAR_NS = 365 * 86_400 * 10**9


def span(number, start_ns, end_ns, parent=0, name="work", **more):
    ids = {"traceId": TRACE, "spanId": f"{number:016x}", **({"parentSpanId": f"{parent:016x}"} if parent else {})}
    return {**ids, "name": name, "startTimeUnixNano": str(start_ns), "endTimeUnixNano": str(end_ns), **more}


@pytest.fixture
def opened(browser, tmp_path):
    """The page of a file with these spans, which reported nothing while it was loaded."""

    def opened(*spans):
        with open(tmp_path / "hostile.jsonl", "w", encoding="utf-8") as file:
            for part in spans:
                file.write(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [part]}]}]}) + "\n")
        browser.errors.clear()
        page = OpenPage(browser, write(tmp_path / "a.html", tmp_path / "hostile.jsonl"))
        assert browser.errors == []
        return page

    return opened


def last_row(page):
    """The level and the name of the last row of the tree."""
    page.push("#open-all")
    page.focus("#tree-rows tr")
    page.browser.press("End")
    return int(page.browser.evaluate("document.querySelector('tr[aria-selected=true]').ariaLevel")), page.selected()


def count(page):
    return int(page.browser.evaluate("document.querySelector('#tree-table').ariaRowCount")) - 1


def test_a_trace_of_100000_spans_is_shown_whole(opened):
    spans = (span(2 + i, START_NS + i * 1000, START_NS + i * 1000 + 900, 1, f"span {i}") for i in range(100_000))
    page = opened(span(1, START_NS, START_NS + 10**8), *spans)
    assert last_row(page) == (2, "span 99999")
    assert count(page) == 100_001
    page.browser.press("/")
    page.browser.type("span 7777")
    page.browser.press("Enter")
    assert page.text("#count") == "11 of 100001 spans"


def test_a_chain_of_10000_spans_is_shown_to_its_end(opened):
    chain = [span(1 + i, START_NS + i, START_NS + 30_000 - i, i, f"depth {i}") for i in range(10_000)]
    page = opened(*chain)
    assert last_row(page) == (10_000, "depth 9999")
    assert page.text("#path tr:last-child").split("\t")[1] == "10.0 µs"


def test_an_attribute_of_ten_megabytes_is_cut(opened):
    text = {"key": "long", "value": {"stringValue": "x" * 10_000_000}}
    page = opened(span(1, START_NS, START_NS + 1000, attributes=[text]))
    page.focus("#tree-rows tr")
    page.browser.press("Enter")
    assert 4_000 < len(page.text("#details")) < 6_000


def test_spans_of_zero_of_years_and_before_their_start_are_drawn(opened):
    spans = [
        span(1, START_NS, START_NS + 200 * YEAR_NS, name="long"),
        span(2, START_NS + 5, START_NS + 5, 1, "nothing"),
        span(3, START_NS + 10, START_NS, 1, "backwards"),
        span(4, 0, 10, 1, "at the beginning of time"),
    ]
    page = opened(*spans)
    assert [row[1] for row in page.rows()] == ["long", "at the beginning of time", "nothing", "backwards"]
    for key in "++++-0":
        page.focus("#timeline")
        page.browser.press(key)
    assert page.browser.errors == []
    assert "NaN" not in page.browser.evaluate("document.querySelector('#explore').innerHTML")


def test_ids_that_occur_twice_are_two_rows_and_an_address_opens_the_first(opened):
    page = opened(span(1, START_NS, START_NS + 10, name="first"), span(1, START_NS + 5, START_NS + 9, name="second"))
    assert [row[1] for row in page.rows()] == ["first", "second"]
    page.reopen(f"#span={TRACE}.{1:016x}")
    assert page.selected() == "first"


@pytest.mark.parametrize("fragment", ["#span=", "#span=%3Cscript%3E", "#span=__proto__", "#other", "#span=%00.%ff"])
def test_an_address_that_leads_nowhere_opens_nothing(opened, fragment):
    page = opened(span(1, START_NS, START_NS + 10))
    page.reopen(fragment)
    assert page.selected() is None
    assert page.browser.errors == []


def test_names_of_properties_of_javascript_are_names(opened):
    names = ["__proto__", "constructor", "toString", "hasOwnProperty"]
    facts = [{"key": name, "value": {"stringValue": name}} for name in names]
    events = [{"name": name, "timeUnixNano": str(START_NS)} for name in names]
    page = opened(
        *(
            span(1 + i, START_NS, START_NS + 10, 0, name, attributes=facts, events=events)
            for i, name in enumerate(names)
        )
    )
    assert [row[1] for row in page.rows()] == names
    page.focus("#tree-rows tr")
    page.browser.press("Enter")
    shown = page.text("#details")
    assert {name: shown.count(name) for name in names} == {"__proto__": 4, **dict.fromkeys(names[1:], 3)}
