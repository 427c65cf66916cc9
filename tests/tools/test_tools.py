# SPDX-License-Identifier: Apache-2.0
"""What the Makefile calls: generated documents are current, and pip's configuration reaches uv."""

import re
import subprocess
from pathlib import Path

import pytest

import generate_cli_page
import generate_compatibility_page
import generate_messages_page
import generate_metrics_page
import generate_phase_page
import generate_privacy_page
import generate_semantic_conventions
import generate_settings_page
import generate_signature
import pip_config_for_uv
import what_is_missing
from torchspan import cli, environment_variables
from torchspan.words import phase, semconv, settings
from torchspan.words.redaction import message_table

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = (
    generate_settings_page,
    generate_metrics_page,
    generate_messages_page,
    generate_cli_page,
    generate_phase_page,
    generate_compatibility_page,
)


def test_the_generated_document_is_what_its_sources_say():
    text = (ROOT / "docs" / "reference" / "semantic-conventions.md").read_text(encoding="utf-8")
    assert text == generate_semantic_conventions.document(), "write it with: make docs"


def test_the_check_fails_for_a_document_that_is_not_current(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generate_semantic_conventions, "FILE", tmp_path / "semantic-conventions.md")

    assert generate_semantic_conventions.main(["--check"]) == 1
    assert "make docs" in capsys.readouterr().err
    assert generate_semantic_conventions.main([]) == 0
    assert generate_semantic_conventions.main(["--check"]) == 0


def test_the_signature_of_instrument_is_what_the_rows_of_the_settings_say():
    for file, text in (
        (generate_signature.FUNCTION, generate_signature.function()),
        (generate_signature.STUB, generate_signature.stub()),
    ):
        assert file.read_text(encoding="utf-8") == text, "write it with: make docs"


def test_the_privacy_page_is_what_its_sources_say():
    text = (ROOT / "docs" / "explanation" / "privacy.md").read_text(encoding="utf-8")
    assert text == generate_privacy_page.document(), "write it with: make docs"


def test_the_privacy_page_names_every_attribute_and_what_its_kind_lets_through():
    text = generate_privacy_page.document()
    assert [row for row in semconv.ATTRIBUTES if f"`{row}`" not in text] == []
    assert [row for row in semconv.ATTRIBUTES if row.kind is not None and row.kind.leaves not in text] == []


def test_the_check_fails_for_a_privacy_page_that_is_not_current(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generate_privacy_page, "FILE", tmp_path / "privacy.md")

    assert generate_privacy_page.main(["--check"]) == 1
    assert "make docs" in capsys.readouterr().err
    assert generate_privacy_page.main([]) == 0
    assert generate_privacy_page.main(["--check"]) == 0


@pytest.mark.parametrize("page", REFERENCE)
def test_a_page_of_the_reference_is_what_its_sources_say(page):
    assert page.FILE.read_text(encoding="utf-8") == page.document(), "write it with: make docs"


@pytest.mark.parametrize("page", REFERENCE)
def test_the_check_fails_for_a_page_of_the_reference_that_is_not_current(page, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(page, "FILE", tmp_path / "page.md")

    assert page.main(["--check"]) == 1
    assert "page.md differs from its sources; write it with: make docs" in capsys.readouterr().err
    assert page.main([]) == 0
    assert page.main(["--check"]) == 0


def test_the_page_of_settings_has_every_argument_and_variable():
    text = generate_settings_page.document()
    assert "| `detail`<br>`TORCHSPAN_DETAIL`<br>`--detail` | `stages`, `passes`<br>default: `stages` |" in text
    assert "| `TORCHSPAN_FILE_MAX_SIZE` | a positive number of bytes<br>default: `268435456` |" in text
    assert [each for each in settings.SETTINGS if f"`{each.name}`" not in text] == []
    assert [name for name in vars(environment_variables) if name.isupper() and f"`{name}`" not in text] == []


def test_the_page_of_metrics_has_every_metric_with_its_unit():
    text = generate_metrics_page.document()
    assert "| `torch_tensorrt.compile.duration` | histogram | `s` |" in text
    assert [each for each in semconv.METRICS if f"| `{each}` |" not in text] == []


def test_the_page_of_messages_has_every_file_with_its_rows_and_every_hole():
    text = generate_messages_page.document()
    assert [name for name in message_table.FILES if f"| `{name}.json` |" not in text] == []
    assert f"| | together | {sum(len(message_table.read(name)['rows']) for name in message_table.FILES):,} |" in text
    assert list(generate_messages_page.HOLES) == list(message_table.HOLES)


def test_the_page_of_the_command_line_has_every_command_with_its_options():
    text = generate_cli_page.document()
    assert re.findall(r"^## torchspan (.*)", text, re.MULTILINE) == list(cli.COMMANDS)
    assert "torchspan show [options] FILE..." in text
    assert "| `--detail {stages,passes}` | stages: a span for each stage of a compilation." in text
    assert "else torchspan-&lt;time&gt;-&lt;pid&gt;.jsonl in the current folder" in text
    assert generate_cli_page.cell("a | b\n  c") == "a \\| b c"


def test_the_page_of_phases_has_a_section_for_each_phase_with_its_spans():
    text = generate_phase_page.document()
    names = [name for name in phase.__all__ if isinstance(getattr(phase, name), phase.Phase)]
    assert sorted(re.findall(r"^::: torchspan\.phase\.(\w+)", text, re.MULTILINE)) == names
    assert "Span name: `torch_tensorrt.pass <target>`. " in text


def test_of_pips_configuration_the_environment_wins_then_the_install_section():
    listing = """\
global.index-url='https://global.example/simple'
install.index-url='https://install.example/simple'
download.index-url='https://download.example/simple'
:env:.timeout='5'
global.timeout='60'
nonsense
"""
    assert pip_config_for_uv.pip_configuration(listing) == {
        "index-url": "https://install.example/simple",
        "timeout": "5",
    }


@pytest.mark.parametrize(
    ("pip", "uv"),
    [
        ({"index-url": "https://a.example/simple"}, {"UV_DEFAULT_INDEX": "https://a.example/simple"}),
        (
            {"extra-index-url": "https://a.example/simple\nhttps://b.example/simple"},
            {
                "UV_INDEX": "https://a.example/simple https://b.example/simple",
                "UV_INDEX_STRATEGY": "unsafe-best-match",
            },
        ),
        ({"find-links": "https://a.example/wheels /not/there"}, {"UV_FIND_LINKS": "https://a.example/wheels"}),
        ({"find-links": "/not/there"}, {}),
        ({"trusted-host": "a.example b.example"}, {"UV_INSECURE_HOST": "a.example b.example"}),
        (
            {"proxy": "http://a.example:3128"},
            {"HTTPS_PROXY": "http://a.example:3128", "HTTP_PROXY": "http://a.example:3128"},
        ),
        ({"cert": "/a/bundle.pem"}, {"SSL_CERT_FILE": "/a/bundle.pem"}),
        ({"client-cert": "/a/own.pem"}, {"SSL_CLIENT_CERT": "/a/own.pem"}),
        ({"timeout": "60"}, {"UV_HTTP_TIMEOUT": "60"}),
        ({"pre": "true"}, {"UV_PRERELEASE": "allow"}),
        ({"no-cache-dir": "false"}, {}),
        ({"keyring-provider": "import"}, {}),
        ({"disable-pip-version-check": "1"}, {}),
    ],
)
def test_what_was_said_to_pip_is_said_to_uv(pip, uv):
    assert pip_config_for_uv.uv_environment(pip, {}) == uv


def test_what_was_said_to_uv_stands():
    pip = {"index-url": "https://pip.example/simple", "cert": "/pip.pem"}
    environ = {"UV_INDEX_URL": "https://uv.example/simple", "SSL_CERT_FILE": "/uv.pem"}

    assert pip_config_for_uv.uv_environment(pip, environ) == {}
    assert pip_config_for_uv.uv_environment(pip, {}, uv_has_file=True) == {"SSL_CERT_FILE": "/pip.pem"}


def test_uv_and_an_index_with_a_shell_character_in_it():
    lines = pip_config_for_uv.shell_lines({"UV_DEFAULT_INDEX": "https://u:p$w'd@a.example/simple"}, ["--no-index"])
    script = "\n".join([*lines, 'printf "%s\\n" "$UV_DEFAULT_INDEX" "${uv_options[@]}"'])

    out = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=True).stdout

    assert out.splitlines() == ["https://u:p$w'd@a.example/simple", "--no-index"]


def test_without_an_index_uv_gets_the_option_for_it():
    assert pip_config_for_uv.uv_options({"no-index": "true"}) == ["--no-index"]
    assert pip_config_for_uv.uv_options({}) == []


def test_what_this_machine_lacks_is_named(capsys, monkeypatch):
    monkeypatch.setattr(what_is_missing, "has_gpu", lambda: False)

    what_is_missing.main()

    out = capsys.readouterr().out
    assert "No GPU" in out
    assert "make test-versions" in out


def test_the_shell_scripts_are_understood():
    for script in ("tools/setup", ".ci/run"):
        subprocess.run(["bash", "-n", ROOT / script], check=True)


def test_a_setup_that_was_done_is_done_at_once_and_needs_no_network(tmp_path):
    copy = tmp_path / "copy"
    (copy / "tools").mkdir(parents=True)
    for name in ("pyproject.toml", "tools/setup"):
        (copy / name).write_bytes((ROOT / name).read_bytes())
    venv = copy / ".venv" / "bin"
    venv.mkdir(parents=True)
    (venv / "python").write_text("#!/bin/sh\nexit 0\n")
    (venv / "python").chmod(0o755)
    stamp = subprocess.run(
        ["bash", "-c", "cat pyproject.toml tools/setup | cksum | cut -d' ' -f1"],
        cwd=copy, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    (copy / ".venv" / f".stamp-{stamp}").touch()

    done = subprocess.run(["bash", "tools/setup"], cwd=copy, capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("", "")


def test_the_routes_that_need_more_than_this_machine_has_are_named(tmp_path, monkeypatch):
    report = tmp_path / "routes.md"
    report.write_text("| route | hook | |\n|---|---|---|\n| a | x | real |\n| a | y | not here: needs Z |\n")
    monkeypatch.setattr(what_is_missing, "ROUTES", report)
    assert list(what_is_missing.routes()) == ["Routes, with the hook that did not fire: a (y). Needed: Z."]


def test_routes_that_did_not_run_are_not_taken_for_green(tmp_path, monkeypatch):
    monkeypatch.setattr(what_is_missing, "ROUTES", tmp_path / "absent.md")
    assert list(what_is_missing.routes()) == ["Routes: not all of them ran, so it is not known which hooks fired."]
