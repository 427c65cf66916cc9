# SPDX-License-Identifier: Apache-2.0
"""The page "Observing inputs": its programs print what stands below them, its table has every kind of finding."""

import re
from pathlib import Path

import pytest

from torchspan.inputs.aligned import findings
from torchspan.inputs.inferred import exports as exporting
from torchspan.inputs.profiled import profile_inference

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "observing-inputs.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_program_of_the_page_has_its_output_below():
    assert len(PROGRAMS) == PAGE.count("```python\n") > 0


@pytest.mark.parametrize(("program", "output"), PROGRAMS, ids=[str(index) for index in range(len(PROGRAMS))])
def test_a_program_prints_what_stands_below_it(program, output, capsys, tmp_path):
    file = tmp_path / "page.py"
    file.write_text(program, encoding="utf-8")
    exec(compile(program, str(file), "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == output


def test_the_table_has_every_kind_of_finding():
    modules = (findings, profile_inference, exporting)
    source = "\n".join(Path(each.__file__).read_text(encoding="utf-8") for each in modules)
    kinds = set(re.findall(r'Finding\(\s*"(\w+)"', source)) | set(
        re.findall(r'^        "(\w+)": f?"\{', source, re.MULTILINE)
    )
    rows = re.findall(r"^\| (`.*?`) \|", PAGE, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == kinds
