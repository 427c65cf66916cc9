# SPDX-License-Identifier: Apache-2.0
"""`InputObserver`: what a model was called with, without its tensors."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any

from torchspan.base import reading
from torchspan.base.forks import renewed
from torchspan.inputs.aligned import findings
from torchspan.inputs.aligned.alignment import Alignment, NothingObservedError
from torchspan.inputs.aligned.findings import Finding
from torchspan.inputs.inferred.exports import ExportedModel, export
from torchspan.inputs.inferred.inference import Inference, made, passed
from torchspan.inputs.observed.attachments import ForwardHooks
from torchspan.inputs.observed.leaves import Path
from torchspan.inputs.observed.observations import ModuleCall, ObservedCalls, Snapshot
from torchspan.inputs.observed.origins import Elsewhere, Live, forward_signature
from torchspan.inputs.observed.signatures import BoundCall, CallSignature, UnfitCallError
from torchspan.inputs.observed.trees import LEAVES_LIMIT, Reader, SymbolicCallError, TooManyLeavesError, Tree
from torchspan.inputs.profiled.compiler_inputs import made_inputs
from torchspan.inputs.profiled.profile_inference import Limits, infer_profile
from torchspan.inputs.profiled.profiles import InputProfile, mark_dynamic
from torchspan.inputs.written import documents, merging, reports
from torchspan.inputs.written.encoder import Record

DimensionNames = Mapping[str | int, Mapping[int, str]] | bool | None


class InputObserver:
    """Records the shapes of the arguments of a model, and infers what `torch.export.export` needs.

    It is like `torch.onnx.InputObserver`; the guide *Observing inputs* lists the differences:

        observer = InputObserver()
        with observer(model):
            model(x1, y1)
            model(x2, y2)
        args = observer.infer_arguments()
        dynamic_shapes = observer.infer_dynamic_shapes()
        program = torch.export.export(model, args, dynamic_shapes=dynamic_shapes)

    Of a tensor it keeps the shape, the data type and the device. Of numbers, strings and flags it keeps the value, only in this
    process. Every call counts, whether its arguments were passed by position or by keyword. At most 1,024 distinct shapes of
    calls are kept. Of further ones, only the range of each dimension is kept. An observed call never fails because of the
    observer: `findings` lists what prevents an export. It may be used from any thread.

    Args:
        value_if_missing: Values for arguments in calls that lack them, by name or position. The shape of such a value
            counts as observed in those calls. The model does not receive the value.

    Raises:
        TypeError: `value_if_missing` is not a dictionary with names and positions as keys.
    """

    def __init__(self, value_if_missing: Mapping[str | int, Any] | None = None) -> None:
        if value_if_missing is not None and not isinstance(value_if_missing, Mapping):
            raise TypeError(f"value_if_missing must be a dictionary by argument, not {value_if_missing!r}")
        for key in value_if_missing or {}:
            if isinstance(key, bool) or not isinstance(key, (str, int)):
                raise TypeError(
                    f"value_if_missing has names (str) and positions (int) of arguments as keys, not {key!r}"
                )
        self.value_if_missing: dict[str | int, Any] = dict(value_if_missing or {})
        self._lock = renewed(threading.RLock())
        self._observed: Live | Elsewhere | None = None
        self._removed: frozenset[str] = frozenset()

    # --- observing ---------------------------------------------------------------------------------------------------
    def __call__(self, model: Any) -> _Block:
        """Record the calls of a module in a `with` statement.

        Hooks are registered: they see `model(...)` and what calls it, such as `model.generate(...)`, and no direct call of
        `model.forward(...)`. Several blocks with one model add up. Blocks of several observers may begin and end in any order.
        Give the observer the object that is called: what `torch.compile` returned, not the module in it.

        Args:
            model: A `torch.nn.Module`. An observer has one model.

        Returns:
            A context manager, which gives the observer.

        Raises:
            TypeError: The model is not a `torch.nn.Module`.
            ValueError: The observer has another model, or `value_if_missing` names an argument that `forward` does not have.
        """
        if not reading.is_a(model, reading.loaded("torch.nn", "Module")):
            raise TypeError(f"An observer observes a torch.nn.Module, not an object of {type(model).__name__}.")
        with self._lock:
            observed = self._observed
            if observed is None:
                absent = _absent_values(forward_signature(model), self.value_if_missing)
                observed = self._observed = Live(model, absent)
            if not isinstance(observed, Live):
                raise ValueError(  # noqa: TRY004 - of the state, not of the argument
                    f"The observer has calls of {observed.name} that were observed elsewhere. Create another InputObserver, and add "
                    "its calls with merge."
                )
            if not observed.is_of(model):
                raise ValueError(
                    f"The observer has calls of {observed.name}. Create another InputObserver for {type(model).__name__}: what is "
                    "inferred holds for one model."
                )
        return _Block(self, observed, model)

    # --- what was observed -------------------------------------------------------------------------------------------
    def num_obs(self) -> int:
        """Return the number of recorded calls that returned."""
        return 0 if self._observed is None else self._observed.completed

    def is_empty(self) -> bool:
        """Return whether there is no recorded call that returned."""
        return self.num_obs() == 0

    def findings(self, set_batch_dimension_for: Collection[str | int] | bool | None = None) -> list[Finding]:
        """What in the calls prevents an export or an engine, or changes from call to call.

        Args:
            set_batch_dimension_for: As for `infer_dynamic_shapes`: a batch of 1 in every call is a finding.

        Returns:
            Findings about calls as a whole first, then in the order of the arguments.

        Raises:
            TypeError, ValueError: An argument that is named does not exist.
        """
        if self._observed is None:
            return [*findings.of_counts(ObservedCalls().snapshot().counts)]
        snapshot = self._observed.snapshot()
        of_counts = [*findings.of_counts(snapshot.counts)]
        if not snapshot.shapes:
            return of_counts
        has_batch = _batch_rule(self._observed.signature, set_batch_dimension_for)
        return [*of_counts, *findings.of_calls(self._aligned(self._observed, snapshot), has_batch)]

    def remove_inputs(self, input_names: Collection[str | int]) -> int:
        """Leave arguments out of everything that is inferred, of later calls too.

        A name that no call has is left out as soon as a call has it. A name that the signature lacks is ignored.

        Args:
            input_names: Names and positions of arguments.

        Returns:
            The number of recorded calls that had one of them, once for each argument; 0 if there is none.

        Raises:
            RuntimeError: The observer was not given a model.
            TypeError: `input_names` is a string, or has something else than names and positions.
            ValueError: An argument is `*args` or `**kwargs`, or the signature has no argument of that position.
        """
        observed = self._checked()
        if isinstance(input_names, str):
            raise TypeError(f"input_names must be a collection of names, such as [{input_names!r}], not a string")
        signature = observed.signature
        known = [name for name in input_names if not isinstance(name, str) or signature.accepts(name)]
        names = {signature.find(name, "remove_inputs") for name in known}
        variadic = sorted(names & {signature.var_positional, signature.var_keyword})
        if variadic:
            raise ValueError(
                f"remove_inputs cannot remove {variadic[0]!r}, which takes several arguments; name a single argument"
            )
        shapes = observed.snapshot().shapes
        new = names - self._removed
        self._removed |= names
        return sum(shape.count for shape in shapes for name in shape.first.arguments if name in new)

    # --- what is inferred --------------------------------------------------------------------------------------------
    def infer_arguments(
        self,
        args_or_kwargs: tuple[Any, ...] | dict[str, Any] | None = None,
        as_args_kwargs: bool = False,
    ) -> Any:
        """Arguments for `torch.export.export` that have everything that any call had.

        Tensors are zeros of an observed shape on the observed device, unless they are given. An argument that the chosen call lacks gets the shape that it had in the most similar call; a size that equalled one of
        another argument in every call follows that argument. An argument that had its default value in every call is left out.

        Args:
            args_or_kwargs: The arguments from which the example is made: positional ones (a tuple), or keyword arguments (a
                dictionary). Default: the shape with the most tensors, then with the fewest dimensions of size 0 or 1 among
                those that vary, then the most frequent one. Dimensions of size 0 or 1 that remain would be constants to
                torch.export: they get a larger observed size, and so do those that depended on them in every call.
            as_args_kwargs: Return `(args, kwargs)`.

        Returns:
            A tuple if every call passed every argument by position, else a dictionary by name in the order of the signature.
            With `as_args_kwargs`, a tuple and a dictionary.

        Raises:
            RuntimeError: No call was observed; or the arguments do not fit into only a tuple or only a dictionary; or an
                argument contains an object that torchspan cannot build.
            TypeError, ValueError: The given arguments are of another type, or do not fit the signature.
        """
        observed, _, alignment = self._alignment()
        inference = Inference(alignment)
        values: dict[Path, Any] = {}
        if args_or_kwargs is None:
            trees = inference.usual_example()
        else:
            call = _written_out(observed.signature, args_or_kwargs, values)
            trees = inference.example(call.without(self._removed))
        values_by_name = made(trees, values)
        layout = inference.layout([*values_by_name], as_args_kwargs=as_args_kwargs)
        args, kwargs = passed(values_by_name, layout, observed.signature)
        if as_args_kwargs:
            return args, kwargs
        return kwargs or args

    def infer_dynamic_shapes(
        self,
        set_batch_dimension_for: Collection[str | int] | bool | None = None,
        dim_names: DimensionNames = None,
    ) -> tuple[Any, ...] | dict[str, Any]:
        """Which dimensions vary, for `torch.export.export(dynamic_shapes=...)`, in the structure of `infer_arguments()`.

        Args:
            set_batch_dimension_for: Names and positions of the arguments whose first dimension varies, whatever was observed;
                True for all.
            dim_names: Names of dimensions in place of `torch.export.Dim.DYNAMIC`, as `torch.onnx.export` takes them: by name
                or position of the argument, then by dimension. A dimension without a name gets `ARGUMENT_dim_AXIS`, as all do
                with True.

        Returns:
            For each tensor a dictionary with the dimensions that vary; None for everything else. A tuple if
            `infer_arguments` returns one and there are no `*args`, else a dictionary.

        Raises:
            RuntimeError: No call was observed.
            TypeError, ValueError: An argument that is named does not exist, or a parameter has another type.
        """
        observed, _, alignment = self._alignment()
        has_batch = _batch_rule(observed.signature, set_batch_dimension_for)
        dimension = _dimension_rule(observed.signature, dim_names)
        return Inference(alignment).dynamic_shapes(has_batch, dimension)

    def infer_profile(
        self,
        set_batch_dimension_for: Collection[str | int] | bool | None = None,
        *,
        percentile: float = 100.0,
        headroom: float = 0.0,
    ) -> InputProfile:
        """The sizes that an engine should be built for: the smallest, the usual and the largest of each dimension.

        The opt shapes are those that occurred together most often, with sizes of at least 2 in the dimensions that vary, which
        `torch.export` needs. Dimensions that had the same size in every call, and more than one size, share a name.

        Args:
            set_batch_dimension_for: Names and positions of the arguments whose first dimension varies, whatever was observed;
                True for all. A first dimension with one observed size gets the range from 1 to that size, or to 2.
            percentile: The upper limit of each dimension is the size that this share of the calls, in percent, does not
                exceed. The profile reports how many calls exceed it.
            headroom: The share that is added to the upper limit of each dimension that varies: 0.25 turns 32 into 40.

        Returns:
            An `InputProfile`, for `to_torch_tensorrt`, `export` and `mark_dynamic`. Its `to_python()` returns a program.

        Raises:
            RuntimeError: No call was observed.
            TypeError, ValueError: An argument that is named does not exist, or a parameter is of another type or out of range.
        """
        limits = Limits(percentile, headroom)
        observed, _, alignment = self._alignment()
        return infer_profile(alignment, limits, _batch_rule(observed.signature, set_batch_dimension_for))

    def to_torch_tensorrt(self, profile: InputProfile | None = None) -> dict[str, Any]:
        """Arguments for `torch_tensorrt.dynamo.trace` and `compile`, with the ranges of a profile.

            inputs = observer.to_torch_tensorrt()
            program = torch_tensorrt.dynamo.trace(model, **inputs)
            compiled = torch_tensorrt.dynamo.compile(program, **inputs)

        Creating a `torch_tensorrt.Input` allocates a tensor of its `opt_shape` in the memory of the CPU.

        Args:
            profile: The ranges. Default: those of `infer_profile()`.

        Returns:
            A dictionary with `arg_inputs` and `kwarg_inputs`, which contain a `torch_tensorrt.Input` for each tensor.

        Raises:
            RuntimeError: No call was observed, or `torch_tensorrt.dynamo.trace` cannot take an argument of this structure or
                type, which `export` can.
            TypeError: `profile` is not an `InputProfile`.
            ImportError: Torch-TensorRT is not installed.
        """
        return made_inputs(self._profile(profile))

    def export(
        self,
        model: Any,
        profile: InputProfile | None = None,
        *,
        strict: bool = False,
    ) -> ExportedModel:
        """Export a model with `torch.export.export`, with the ranges of a profile.

        The example has the opt shapes; its tensors are zeros on the observed devices. Each dimension that varies is a bounded
        `Dim.AUTO`. So PyTorch finds equal dimensions itself, and makes a constant of a dimension where the code needs one.

        Args:
            model: The module, whose `forward` was observed.
            profile: The ranges. Default: those of `infer_profile()`.
            strict: Whether `torch.export.export` captures the graph with Dynamo.

        Returns:
            An `ExportedModel`: the program, and a finding for each dimension that became a constant, or that has a narrower range than the profile.

        Raises:
            RuntimeError: No call was observed, or an argument contains an object that torchspan cannot build.
            TypeError: `profile` is not an `InputProfile`.
            Exception: What `torch.export.export` raises.
        """
        return export(model, self._profile(profile), strict=strict)

    def mark_dynamic(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None = None,
        profile: InputProfile | None = None,
    ) -> int:
        """Mark the tensors of the call with which a compiled model is compiled, with the ranges of a profile.

            compiled = torch.compile(model, backend="tensorrt")
            observer.mark_dynamic((x,))
            compiled(x)

        The engine is built for the ranges, with opt as observed, whatever sizes this call has. A call with a size outside of a
        range, or a size of 1, is compiled separately.

        Args:
            args: The positional arguments of the call.
            kwargs: Its keyword arguments.
            profile: The ranges. Default: those of `infer_profile()`.

        Returns:
            How many dimensions were marked.

        Raises:
            RuntimeError: No call was observed.
            TypeError: `profile` is not an `InputProfile`, or `args` is not a tuple.
            ValueError: The arguments do not fit the signature, or a size in a dimension that varies is 0 or 1, or outside of the
                range. Nothing is marked then.
        """
        if not isinstance(args, tuple):
            raise TypeError(f"args must be a tuple of the positional arguments, not an object of {type(args).__name__}")
        observed, inferred = self._checked(), self._profile(profile)
        bound = _bound("mark_dynamic", observed.signature, args, kwargs or {})
        values: dict[Path, Any] = {}
        _read("mark_dynamic", bound.arguments, values)
        return mark_dynamic(inferred, values)

    # --- reports and files -------------------------------------------------------------------------------------------
    def report(self, width: int = 100) -> str:
        """The calls as a table for the terminal: `print(observer.report())`.

        A row for each dimension of each tensor has the smallest, the most frequent and the largest size, the number of distinct
        sizes, and a bar for each of up to eight ranges of sizes of one width. For a tensor, a number or a flag that
        some calls lack, the table shows how many calls had it. Values of numbers and strings are not in the table. The
        `findings` follow below it.

        Args:
            width: Columns of the text. In a narrow table, long names of arguments are cut, and the columns on the right may be
                left out, which a line below the table reports.

        Returns:
            The text, in several lines.
        """
        if self._observed is None:
            return reports.report("No method", ObservedCalls().snapshot(), None, self.findings(), width)
        snapshot = self._observed.snapshot()
        alignment = self._aligned(self._observed, snapshot) if snapshot.shapes else None
        return reports.report(self._observed.name, snapshot, alignment, self.findings(), width)

    def to_json(self, file: str | os.PathLike[str] | None = None, *, values: bool | None = None) -> str:
        """Write the observed calls as JSON, for `from_json` and for `torchspan inputs`.

        The file contains shapes, data types, devices, names of parameters and classes, and counts. Tensors are not written.

        Args:
            file: The file to write. It is readable for its owner only, and replaces an earlier file of observed inputs as a
                whole. Default: no file.
            values: Whether values of the program are written: numbers, strings and flags among the arguments, default values,
                keys of dictionaries, and names of keyword arguments that `**kwargs` takes. Without them, a constant has its
                type and its counts, and a key is a digest, which a reader who guesses the key can compute. Default: whether
                the environment variable TORCHSPAN_CAPTURE is `text`.

        Returns:
            The text that was written.

        Raises:
            RuntimeError: No call was observed.
            OSError: The file cannot be written, or contains something else than observed inputs.
        """
        document = documents.Document([self._record(documents.writes_values() if values is None else values)])
        return documents.text_of(document) if file is None else documents.write(document, file)

    @classmethod
    def from_json(cls, source: str | os.PathLike[str], name: str | None = None) -> InputObserver:
        """An observer with the calls that `to_json`, or `torchspan run --observe-inputs`, has written.

        Data types, devices and classes are looked up in this process when something is inferred. A class of a container has to
        be registered with pytree by then, as it was where the calls were observed.

        Args:
            source: A file, or the text itself.
            name: The calls to read if the file has those of several classes: `module.Class.method`.

        Returns:
            The observer.

        Raises:
            InputFileError: The file is incomplete or damaged, has another version, or is another kind of file; or it has no calls
                of `name`; or it has calls of several methods and `name` is None.
            OSError: The file cannot be read.
        """
        is_text = isinstance(source, str) and source.lstrip().startswith("{")
        document = documents.parsed(source, "The text") if is_text else documents.read(source)  # type: ignore[arg-type]
        return cls._of(documents.one_of(document, name, "The text" if is_text else os.fspath(source)))

    def merge(self, *others: InputObserver) -> InputObserver:
        """A new observer with the calls of this one and of others, such as those of several processes.

        Counts, shapes and ranges add up exactly, in any order. If one of the observers has no values (see `to_json`), the new one
        has none.

        Args:
            *others: Observers of the same method of the same class.

        Returns:
            The new observer.

        Raises:
            RuntimeError: One of them has no calls.
            ValueError: They observed different methods, or the method has other parameters in some of them.
        """
        return self._of(merging.merged([observer._record(True) for observer in (self, *others)]))

    @classmethod
    def _of(cls, record: Record) -> InputObserver:
        """Make an observer with calls that another process observed."""
        observer = cls()
        observer._observed = Elsewhere(record)
        observer._removed = observer._observed.removed
        return observer

    def _record(self, values: bool) -> Record:
        return self._checked().record(self._removed, values=values)

    def _checked(self) -> Live | Elsewhere:
        if self._observed is None:
            raise NothingObservedError("No call was observed. Call the model inside `with observer(model):`.")
        return self._observed

    def _profile(self, profile: InputProfile | None) -> InputProfile:
        if profile is None:
            return self.infer_profile()
        if not isinstance(profile, InputProfile):
            raise TypeError(f"profile must be what infer_profile() returns, not {profile!r}")
        return profile

    def _alignment(self) -> tuple[Live | Elsewhere, Snapshot, Alignment]:
        observed = self._checked()
        snapshot = observed.snapshot()
        return observed, snapshot, self._aligned(observed, snapshot)

    def _aligned(self, observed: Live | Elsewhere, snapshot: Snapshot) -> Alignment:
        return Alignment(snapshot, observed.signature, observed.absent_values, self._removed)


class _Block:
    """The calls of a model are recorded in here."""

    def __init__(self, observer: InputObserver, observed: Live, model: Any) -> None:
        self._observer = observer
        self._observed = observed
        self._model = model

    def __enter__(self) -> InputObserver:
        observed = self._observed
        with self._observer._lock:
            if observed.hooks is None:
                observed.hooks = ForwardHooks(self._model, observed.recorder)
            observed.blocks += 1  # last: a block whose hooks were refused is not left
        return self._observer

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        observed = self._observed
        with self._observer._lock:
            observed.blocks -= 1
            if observed.blocks == 0 and observed.hooks is not None:
                observed.hooks.detach()
                observed.hooks = None


def _absent_values(signature: CallSignature, arguments: Mapping[str | int, Any]) -> dict[str, Tree]:
    return _read(
        "value_if_missing", {signature.find(key, "value_if_missing"): value for key, value in arguments.items()}
    )


def _written_out(signature: CallSignature, layout: object, values: dict[Path, Any]) -> ModuleCall:
    """The call that a user wrote out. `values` receives the value of each tensor and object, by its path."""
    if not isinstance(layout, (tuple, dict)):
        raise TypeError(f"infer_arguments takes a tuple of arguments or a dictionary of them, not {layout!r}")
    args, kwargs = (layout, {}) if isinstance(layout, tuple) else ((), layout)
    bound = _bound("infer_arguments", signature, args, kwargs)
    return ModuleCall(_read("infer_arguments", bound.arguments, values), bound.by_keyword)


def _bound(what: str, signature: CallSignature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> BoundCall:
    try:
        return signature.bind(args, kwargs)
    except UnfitCallError:
        accepted = ", ".join(signature.names)
        raise ValueError(f"The arguments given to {what} do not fit the signature ({accepted}).") from None


def _read(what: str, arguments: Mapping[str, Any], values: dict[Path, Any] | None = None) -> dict[str, Tree]:
    """The structures of arguments that a user wrote out.

    Args:
        what: What the user passed, for the messages of errors.
        arguments: Name of a parameter -> the value that the user wrote out.
        values: Receives the value of each leaf, by its path.

    Raises:
        ValueError: For a tensor without data, and for too many tensors and containers.
    """
    reader = Reader(values)
    try:
        return {name: reader.read(value, (name,)) for name, value in arguments.items()}
    except SymbolicCallError:
        raise ValueError(f"{what} was given a tensor without data, of a tracer or a FakeTensorMode.") from None
    except TooManyLeavesError:
        raise ValueError(f"{what} was given more than {LEAVES_LIMIT:,} tensors and containers.") from None


def _batch_rule(signature: CallSignature, given: Collection[str | int] | bool | None) -> Callable[[str], bool]:
    if given is None or isinstance(given, bool):
        return lambda _name: bool(given)
    if isinstance(given, str) or not isinstance(given, Collection):
        raise TypeError(f"set_batch_dimension_for must be True or a set of names and positions, not {given!r}")
    names = {signature.find(name, "set_batch_dimension_for") for name in given}
    return lambda name: name in names


def _dimension_rule(signature: CallSignature, rule: DimensionNames) -> Callable[[Path, int], Any]:
    if rule is None or rule is False:
        from torch.export import Dim

        return lambda _path, _axis: Dim.DYNAMIC
    if rule is not True and not isinstance(rule, Mapping):
        raise TypeError(f"dim_names must be True or a dictionary by argument and dimension, not {rule!r}")
    chosen = {} if rule is True else {signature.find(name, "dim_names"): names for name, names in rule.items()}

    def dimension(path: Path, axis: int) -> str:
        names = chosen.get(str(path[0]), {})
        return names[axis] if axis in names else f"{'_'.join(str(part) for part in path)}_dim_{axis}"

    return dimension
