# SPDX-License-Identifier: Apache-2.0
"""The site: it builds strictly, has every page and every public name, loads nothing from elsewhere, and is searched as files."""

import contextlib
import importlib
import importlib.util
import io
import json
import pkgutil
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

import build_site
import torchspan
from site_pages import BrokenLinkError, Pages, rewritten
from support.browser import Browser

ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "docs" / "reference" / "api"
DIRECTIVE = re.compile(r"^::: (\S+)$", re.MULTILINE)
INTERNAL = {
    "torchspan.base",
    "torchspan.cli",  # docs/reference/cli.md
    "torchspan.engine",
    "torchspan.hooks",
    "torchspan.native",  # `python -m torchspan.native`
    "torchspan.output",
    "torchspan.reading",
    "torchspan.start",
    "torchspan.words",
}
"""Modules that are not part of the public API although their names have no underscore."""
KINDS = {"tutorial": "Tutorials", "how-to": "How-to guides", "reference": "Reference", "explanation": "Explanation"}

needs_zensical = pytest.mark.skipif(
    sys.version_info < (3, 11) or not importlib.util.find_spec("zensical"),
    reason="Zensical, which builds the site, is not installed: pip install 'torchspan[site]', with Python 3.11 or newer",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built once for all tests."""
    project = build_site.copy_of_the_project(tmp_path_factory.mktemp("site"))
    assert build_site.build(project) == 0
    return project / ".site" / "html"


@pytest.fixture(scope="module")
def configuration():
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("!", lambda _loader, _tag, _node: None)
    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda _loader, _tag, _node: None)
    return yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)


def public_modules():
    """The modules that docs/reference/api documents, by their page."""
    pages = {page: DIRECTIVE.findall(page.read_text(encoding="utf-8")) for page in sorted(API.glob("*.md"))}
    return {name: page for page, names in pages.items() for name in names if name.rpartition(".")[2].islower()}


def listed(entries):
    """The pages of a part of `nav`."""
    for entry in entries:
        for each in entry.values() if isinstance(entry, dict) else [entry]:
            yield from [each] if isinstance(each, str) else listed(each)


def inventory(site):
    """The names in objects.inv, with the page and the anchor of each."""
    lines = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode().splitlines()
    rows = [line.split(" ") for line in lines]
    return {row[0]: row[3].replace("$", row[0]) for row in rows}


@needs_zensical
def test_the_site_has_a_page_for_every_page_of_the_documentation(site):
    pages = [page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if not (site / page.with_suffix(".html")).is_file()] == []


def test_every_page_is_in_the_navigation_below_its_kind(configuration):
    sections = {
        name: pages for entry in configuration["nav"] if isinstance(entry, dict) for name, pages in entry.items()
    }
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(listed(configuration["nav"])) == sorted(pages)
    for folder, kind in KINDS.items():
        below = {page for page in pages if page.startswith(f"{folder}/")}
        assert set(listed(sections.get(kind, []))) >= below, kind


def test_every_module_is_documented_or_internal():
    names = {f"torchspan.{each.name}" for each in pkgutil.iter_modules(torchspan.__path__) if each.name[0] != "_"}
    documented = {name for name in public_modules() if name.count(".") == 1}
    assert names == documented | INTERNAL
    assert documented & INTERNAL == set()


@needs_zensical
@pytest.mark.parametrize("name", public_modules())
def test_every_public_name_of_a_module_is_documented(site, name):
    module = importlib.import_module(name)
    documented = inventory(site)
    page = f"reference/api/{public_modules()[name].stem}.html"
    # A new phase has a pair of observers at once. To be documented, it is declared.
    is_pairs = name.startswith("torchspan.observers.")
    public = list(module.__annotations__) if is_pairs else module.__all__
    wanted = [each for each in public if f"{name}.{each}" not in public_modules()]
    assert [each for each in wanted if not documented.get(f"{name}.{each}", "").startswith(f"{page}#")] == []


@needs_zensical
def test_docstrings_name_no_private_module(site):
    found = {}
    for page in (site / "reference" / "api").glob("*.html"):
        found[page.name] = set(re.findall(r"<code>(_[a-z]\w*)</code>", page.read_text(encoding="utf-8")))
    found["observers.html"].discard("_make_observable")  # the name that Torch-TensorRT's guide uses
    found["answers.html"].discard("_run_on_acc_0")  # as Torch-TensorRT names a subgraph
    assert {name: each for name, each in found.items() if each} == {}


@needs_zensical
def test_docstrings_have_no_markup_that_the_site_shows_as_text_or_reads_as_a_section(site):
    """`text::` is reStructuredText, and a line that ends in a colon above indented lines is a section with that title."""
    found = {}
    for page in (site / "reference" / "api").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        titles = re.findall(r"<details class=\"(\S+)\"", text) + re.findall(r"<div class=\"admonition (\S+)\"", text)
        found[page.name] = [
            *re.findall(r".{0,60}::(?=</p>)", text),
            *(each for each in titles if each != "mkdocstrings-source"),
        ]
    assert {name: each for name, each in found.items() if each} == {}


class Resources(HTMLParser):
    """What a page loads by itself: the addresses of its scripts, styles, pictures and frames."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        names = ("src", "srcset", "data", "poster", *(["href"] if tag in {"link", "image", "use"} else []))
        self.found += [given[name] for name in names if given.get(name)]
        self.found += re.findall(r"url\(([^)]+)\)", given.get("style") or "")


def is_elsewhere(address):
    return address.strip("'\" ").startswith(("http:", "https:", "//"))


@needs_zensical
def test_no_page_and_no_style_loads_anything_from_elsewhere(site):
    found = {}
    for page in site.rglob("*.html"):
        found[page.name] = Resources(page.read_text(encoding="utf-8")).found
    for sheet in site.rglob("*.css"):
        found[sheet.name] = re.findall(r"url\(([^)]+)\)|@import ['\"]([^'\"]+)", sheet.read_text(encoding="utf-8"))
        found[sheet.name] = ["".join(each) for each in found[sheet.name]]
    assert "../assets/iframe-worker.js" in found["jaeger.html"]
    assert {name: elsewhere for name, each in found.items() if (elsewhere := [*filter(is_elsewhere, each)])} == {}


@needs_zensical
def test_a_link_to_a_file_of_the_repository_leads_to_a_page_with_its_text(site):
    page = (site / "how-to" / "observing-inputs.html").read_text(encoding="utf-8")
    assert "../repository/examples/outside_the_profile.py.html" in page
    shown = (site / "repository" / "examples" / "outside_the_profile.py.html").read_text(encoding="utf-8")
    assert "SPDX-License-Identifier" in shown


@needs_zensical
def test_the_search_covers_written_pages_and_public_names_but_no_listing_of_a_file(site):
    found = {each["location"] for each in json.loads((site / "search.json").read_text(encoding="utf-8"))["items"]}
    assert "reference/api/traces.html#torchspan.traces.read" in found
    assert "repository/CONTRIBUTING.html" in found
    assert [each for each in found if each.startswith("repository/examples/") and ".py" in each] == []


@needs_zensical
def test_the_source_of_a_public_function_is_on_its_page(site):
    page = (site / "reference" / "api" / "callbacks.html").read_text(encoding="utf-8")
    assert re.search(r"Source code in <code>(?:src/)?torchspan/engine/subscribers/\w+\.py</code>", page)


@pytest.mark.needs("chromium")
@needs_zensical
def test_the_search_finds_a_public_name_on_a_page_opened_as_a_file(site):
    with Browser() as browser:
        browser.open((site / "how-to" / "jaeger.html").as_uri())
        browser.evaluate("document.querySelector('.md-search__button, [data-md-component=search] button').click()")
        browser.wait_for("every(document).some((each) => each.matches('input:focus'))")
        browser.type("add_thread_local_callback")
        links = browser.wait_for(
            "every(document).filter((each) => each.matches('a') && each.getRootNode() !== document)"
            ".map((each) => each.href)"
        )
        requested, errors = browser.requested, browser.errors
    wanted = (site / "reference" / "api" / "callbacks.html").as_uri()
    assert [link for link in links if link.startswith(wanted) and "add_thread_local_callback" in link] != []
    assert [each for each in requested if not each.startswith((site.as_uri(), "data:"))] == []
    assert errors == []


@pytest.fixture
def repository(tmp_path):
    """A repository with one page that links to a file outside of docs/, and a mkdocs.yml without plugins."""
    root = tmp_path / "repository"
    for name, text in {
        "docs/index.md": "# Start\n\n[Other](guide/other.md#part), [a file](../src/a.py), [a folder](../src)\n",
        "docs/guide/other.md": "# Other\n\n## Part\n\n[Start](../index.md)\n",
        "src/a.py": "x = '```'\n",
        "mkdocs.yml": "site_name: x\ndocs_dir: .site/pages\nsite_dir: .site/html\nuse_directory_urls: false\n"
        "markdown_extensions: [pymdownx.superfences]\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (root / ".gitignore").write_text(".site/\n.cache/\n", encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    return root


def pages(root):
    folder = root / ".site" / "pages"
    Pages(root, folder).write()
    return {str(page.relative_to(folder)): page.read_text("utf-8") for page in folder.rglob("*") if page.is_file()}


def test_files_outside_of_docs_that_are_linked_become_pages_which_are_not_searched(repository):
    made = pages(repository)
    assert sorted(made) == ["guide/other.md", "index.md", "repository/src/a.py.md", "repository/src/index.md"]
    assert made["index.md"] == (
        "# Start\n\n[Other](guide/other.md#part), [a file](repository/src/a.py.md), [a folder](repository/src/index.md)\n"
    )
    assert made["repository/src/a.py.md"] == (
        "---\nsearch:\n  exclude: true\n---\n\n# `src/a.py`\n\n````python\nx = '```'\n````\n"
    )
    assert made["repository/src/index.md"].endswith("# `src/`\n\n- [`a.py`](a.py.md)\n")


@pytest.mark.parametrize("target", ["../src/b.py", "nothing.md", "../../outside.md"])
def test_a_link_to_a_file_that_is_missing_is_an_error_with_page_and_target(repository, target):
    (repository / "docs" / "bad.md").write_text(f"[x]({target})\n", encoding="utf-8")
    with pytest.raises(BrokenLinkError, match=rf"docs/bad\.md links to {re.escape(target)}, and there is no "):
        pages(repository)


@needs_zensical
@pytest.mark.parametrize(
    ("text", "status"), [("[x](guide/other.md#part)", 0), ("[x](guide/other.md#nothing)", 1), ("[x](other.md)", 1)]
)
def test_a_link_or_an_anchor_that_leads_nowhere_fails_the_build(repository, text, status):
    (repository / "docs" / "more.md").write_text(f"# More\n\n{text}\n", encoding="utf-8")
    with contextlib.redirect_stderr(io.StringIO()):
        assert build_site.build(repository, repository) == status


def test_a_picture_outside_of_docs_is_copied_and_a_page_of_tests_is_left_out(repository):
    (repository / "src" / "a.svg").write_text("<svg/>", encoding="utf-8")
    (repository / "tests").mkdir()
    (repository / "tests" / "note.md").write_text("[x](nowhere.md)\n", encoding="utf-8")
    (repository / "README.md").write_text('<img src="src/a.svg"> ![a](src/a%2Esvg)\n', encoding="utf-8")
    made = pages(repository)
    assert made["repository/README.md"] == '<img src="src/a.svg"> ![a](src/a.svg)\n'
    assert made["repository/src/a.svg"] == "<svg/>"
    assert "repository/tests/note.md" not in made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](b.md#c) and [`run`](d.md)\n", "[a](B.MD#C) and [`run`](D.MD)\n"),
        ("`[a](b.md)` [c](d.md)\n", "`[a](b.md)` [c](D.MD)\n"),
        ("[a](https://a.example/b) [c](#d) [e](mailto:f@g.example)\n",) * 2,
        ("[a]: b.md\n", "[a]: B.MD\n"),
        ('<img alt="x" src="b.svg">\n', '<img alt="x" src="B.SVG">\n'),
        ("```python file=app.py\n[a](b.md)\n```\n[a](b.md)\n", "```python\n[a](b.md)\n```\n[a](B.MD)\n"),
        ("  ```shell run\n  x\n  ```\n", "  ```shell\n  x\n  ```\n"),
        ("````text output\n```\n[a](b.md)\n````\n", "````text\n```\n[a](b.md)\n````\n"),
    ],
)
def test_links_outside_of_code_are_replaced_and_fences_keep_their_language_alone(text, expected):
    assert rewritten(text, str.upper) == expected


@needs_zensical
def test_mkdocs_reads_the_same_configuration(site, monkeypatch):
    mkdocs = pytest.importorskip("mkdocs.config")
    monkeypatch.setenv("SITE_THEME", "mkdocs")
    project = site.parents[1]
    with contextlib.chdir(project):
        read = mkdocs.load_config(str(project / "mkdocs.yml"))
    assert (read.site_name, read.use_directory_urls, list(read.plugins)) == (
        "torchspan",
        False,
        ["search", "autorefs", "mkdocstrings"],
    )
