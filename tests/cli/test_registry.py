# SPDX-License-Identifier: Apache-2.0
"""`torchspan registry FOLDER`: the registry of names, in a new folder."""

from pathlib import Path

import pytest

import torchspan
from torchspan.cli import main

REGISTRY = Path(__file__).resolve().parents[2] / "registry"
FILES = ["attributes.yaml", "events.yaml", "manifest.yaml", "metrics.yaml", "released.json", "spans.yaml"]


def test_the_folder_has_the_files_of_the_registry(tmp_path, capsys):
    assert main(["registry", str(tmp_path / "names")]) == 0
    assert sorted(path.name for path in (tmp_path / "names").iterdir()) == FILES
    for name in FILES:
        assert (tmp_path / "names" / name).read_bytes() == (REGISTRY / name).read_bytes()
    assert capsys.readouterr().err == f"torchspan registry: wrote {tmp_path / 'names'}\n"


def test_an_installed_package_has_the_registry_inside(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "torchspan"
    (package / "registry").mkdir(parents=True)
    (package / "registry" / "spans.yaml").write_text("spans: []\n")
    monkeypatch.setattr(torchspan, "__file__", str(package / "__init__.py"))
    assert main(["registry", str(tmp_path / "names")]) == 0
    assert (tmp_path / "names" / "spans.yaml").read_text() == "spans: []\n"


@pytest.mark.parametrize("existing", ["file", "empty folder", "link to nothing"])
def test_what_exists_is_left_as_it_is(tmp_path, capsys, existing):
    target = tmp_path / "names"
    if existing == "file":
        target.write_text("mine")
    elif existing == "empty folder":
        target.mkdir()
    else:
        target.symlink_to(tmp_path / "nothing")
    assert main(["registry", str(target)]) == 2
    assert capsys.readouterr().err == (f"torchspan registry: {target} exists; name a folder that does not exist yet\n")
    assert not (tmp_path / "nothing").exists()
    assert existing != "file" or target.read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_named_with_the_reason(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["registry", str(tmp_path / "file" / "names")]) == 2
    assert capsys.readouterr().err == (
        f"torchspan registry: cannot write {tmp_path / 'file' / 'names'}: Not a directory; name another folder\n"
    )


def test_a_name_for_the_terminal_is_made_printable(tmp_path, capsys):
    (tmp_path / "a\x1b[31mb").mkdir()
    assert main(["registry", str(tmp_path / "a\x1b[31mb")]) == 2
    assert "\x1b" not in capsys.readouterr().err
