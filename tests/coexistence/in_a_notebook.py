# SPDX-License-Identifier: Apache-2.0
"""`in_a_notebook.py PROGRAM PEER ORDER FOLDER`: the work of the program in a cell of a notebook; prints what the cells print."""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

path, *arguments = sys.argv[1:]
CELLS = (
    f"import json, sys\nsys.path.insert(0, {str(Path(path).parent)!r})\nfrom program import Run\nprogram = Run(*{arguments!r})",
    "print(json.dumps(program.work()))",
)

notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
NotebookClient(notebook, kernel_name="python3", timeout=300).execute()
for cell in notebook.cells:
    for output in cell.outputs:
        if output.get("name") == "stdout":
            print(output.text, end="")
