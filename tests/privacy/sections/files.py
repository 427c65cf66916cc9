# SPDX-License-Identifier: Apache-2.0
"""Paths and formats of loads and saves."""

import torch
import torch_tensorrt

X = torch.ones(2, 4)


def plant(place):
    """Each fails but one; none of the paths is a word of the library's."""
    program = torch.export.export(torch.nn.ReLU(), (X,))
    with place.raises("load.missing"):
        torch_tensorrt.load(place("load.missing"))
    with place.raises("load.text"):
        torch_tensorrt.load(place("load.text"))
    folder = place.folder / place("load.not_a_model")
    folder.mkdir(exist_ok=True)
    (folder / "model.ep").write_text("no model", encoding="utf-8")
    with place.raises("load.not_a_model"):
        torch_tensorrt.load(str(folder / "model.ep"))
    with place.raises("save.missing_folder"):
        torch_tensorrt.save(program, f"{place('save.missing_folder')}/x.ep", retrace=False)
    good = place.folder / place("save.good")
    good.mkdir(exist_ok=True)
    extra = {place("save.extra_file.name"): place("save.extra_file.value")}
    with place.part("save.good"):
        torch_tensorrt.save(program, str(good / "x.ep"), retrace=False, extra_files=extra)
    with place.raises("save.format"):
        torch_tensorrt.save(program, str(good / "y.ep"), output_format=place("save.format"))
    with place.raises("save.format.object"):
        torch_tensorrt.save(program, str(good / "y.ep"), output_format=_Format(place("save.format.object")))
    with place.raises("export.save.missing_folder"):
        torch.export.save(program, f"{place('export.save.missing_folder')}/x.pt2")
    with place.raises("export.load.missing"):
        torch_tensorrt.load(f"{place('export.load.missing')}.pt2")
    with place.raises("jit.load.missing"):
        torch_tensorrt.load(f"{place('jit.load.missing')}.ts")
    with place.raises("mutable.load.missing"):
        torch_tensorrt.MutableTorchTensorRTModule.load(place("mutable.load.missing"))


class _Format:
    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text
