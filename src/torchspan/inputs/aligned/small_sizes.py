# SPDX-License-Identifier: Apache-2.0
"""Sizes of 0 and 1 in dimensions that vary: `torch.export` takes them for constants, so an example needs larger ones.

Where every call with all arguments has such a size, as each decode step of a language model has one token, no observed call can
be the example. The sizes that depend on the enlarged one follow it.
"""

from __future__ import annotations

from torchspan.inputs.aligned.alignment import Alignment
from torchspan.inputs.observed.leaves import Leaf, Path, TensorShape
from torchspan.inputs.observed.trees import Tree, leaves, replaced_leaves

_Dimension = tuple[Path, int]


def enlarged(alignment: Alignment, trees: dict[str, Tree]) -> dict[str, Tree]:
    """An example in which no varying dimension has the size 0 or 1.

    Such a dimension gets its smallest observed size from 2 on; 2 where it has none. A dimension that had the same size in
    every call gets the same. One that was the sum of it and a third one in every call grows by the difference.
    """
    sizes = {
        (path, axis): leaf.shape[axis]
        for name, tree in trees.items()
        for path, leaf in leaves(tree, (name,))
        if isinstance(leaf, TensorShape) and path in alignment.summaries
        for axis in alignment.summaries[path].varying(len(leaf.shape))
    }
    small = [each for each, size in sizes.items() if size < 2]
    if not small:
        return trees
    for each in small:
        before = sizes[each]
        if before < 2:
            larger = min((size for size in alignment.sizes(*each) if size is not None and size >= 2), default=2)
            for other in sizes:
                if other == each or alignment.linked(each, other):
                    sizes[other] = larger
                elif alignment.is_sum(other, each, (third for third in sizes if third not in {each, other})):
                    sizes[other] += larger - before

    def of_leaf(path: Path, leaf: Leaf) -> Leaf:
        if not isinstance(leaf, TensorShape):
            return leaf
        shape = tuple(sizes.get((path, axis), size) for axis, size in enumerate(leaf.shape))
        return TensorShape(shape, leaf.dtype, leaf.device)

    return {name: replaced_leaves(tree, (name,), of_leaf) for name, tree in trees.items()}
