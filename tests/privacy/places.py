# SPDX-License-Identifier: Apache-2.0
"""Every place in which the canary program puts a value of the user's, and where that value may be seen.

A place has a form: the kind of text that is put there. Text may be seen nowhere at capture `none`. A name that is an
identifier is seen under the keys that stand alongside it, and nowhere else; `?` behind a key: it depends on time.
A record of the program's own log about a failed callback of the program's has what that raised.
"""

from typing import NamedTuple

from privacy import words

FORMS = ("person", "mail", "key", "path", "number", "company", "sentence")
"""The forms of text, taken in turn by places that say `text`."""


class Place(NamedTuple):
    """name: what is planted where. form: of its canary.

    keys: where it is seen at any capture. perhaps: where it may be as well, which depends on time.
    """

    name: str
    form: str
    keys: frozenset
    perhaps: frozenset


def _rows(table):
    """A place a line: name, form, keys."""
    turn = 0
    for line in table.strip().splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, form, *keys = line.split()
        if form == "text":
            form = FORMS[turn % len(FORMS)]
            turn += 1
        perhaps = {key.rstrip("?") for key in keys if key.endswith("?")}
        yield Place(name, form, frozenset(keys) - {f"{key}?" for key in perhaps}, frozenset(perhaps))


_TABLE = """
# --- the model (sections/models.py)
model.class.identifier              identifier  torch.model.class torchspan.input.module
model.class.text                    text
model.class.docstring               text
model.submodule.name                person
model.submodule.identifier          identifier  torch_tensorrt.engine.modules
model.module_dict.key               identifier
model.parameter.name                person
model.buffer.name                   person
model.parameter.value               text
model.buffer.value                  text
model.attribute.name                name
model.attribute.string              text
model.attribute.dict                text
model.extra_state                   text
model.state_dict.metadata           text
model.hook.name                     name
forward.argument.name               name
forward.keyword.string              text
forward.keyword.dict.key            text
forward.keyword.dict.value          text
forward.dataclass.name              identifier
forward.dataclass.field             name
forward.namedtuple.name             identifier
forward.namedtuple.field            name
forward.local.name                  name
forward.branch.literal              text
forward.print                       text
forward.warning                     text
forward.logging.message             text
forward.logging.argument            text
forward.input.value                 text
forward.output.name                 name
export.dim.name                     word
export.dim.violated                 word
export.parameter.name               identifier
export.input.name                   name
export.keyword.name                 name
export.argument.missing             name
export.dynamic_shapes.key           name
export.strict.exception             text
export.preserved.module             person
compile.ir                          text
compile.ir.string_subclass          text
compile.option.name                 name
compile.option.value                text
compile.executed_op.text            text
compile.executed_op.name            identifier
compile.engine_cache_dir            folder
compile.timing_cache_path           folder
compile.min_block_size              text
compile.optimization_level          text
compile.input.name                  text
compile.input.object.shape          text
compile.input.object.dtype          text
compile.input.object.repr           text
compile.input.raises                text
compile.kwarg_input.name            name
operator.custom.namespace           name        torch_tensorrt.fallback.operators.names torch_tensorrt.unsupported.operators.names torch.export.failed.operator torch.export.failed.reason
operator.custom.name                name        torch_tensorrt.fallback.operators.names torch_tensorrt.unsupported.operators.names torch.export.failed.operator torch.export.failed.reason
operator.custom.argument.name       name
operator.custom.argument.string     text
operator.custom.fake.raises         text
operator.custom.kernel.raises       text

# --- lowering passes, converters, the engine cache (sections/conversions.py)
pass.name.identifier                name        torch_tensorrt.pass.name span.name torchspan.progress.running? torchspan.progress.work? torchspan.open_ancestors.names?
pass.name.text                      text
pass.raises                         text
converter.name.identifier           name        torch_tensorrt.failed.converter
converter.name.text                 text
converter.raises.plain              text
converter.raises.note               text
converter.raises.cause              text
converter.raises.context            text
converter.raises.group.message      text
converter.raises.group.member       text
converter.raises.lines              text
converter.raises.key                text
converter.raises.class.identifier   identifier
converter.raises.class.text         text
converter.raises.check              text
converter.layer.name                word
validator.name.identifier           name        torch_tensorrt.refused.operators.validators
validator.name.text                 text
engine_cache.hash                   text
engine_cache.hash.identifier        identifier
engine_cache.class                  identifier
engine_cache.load.raises            text
engine_cache.folder                 folder
engine.name.text                    text
engine.name.identifier              identifier  torch_tensorrt.engine.name
debugger.log_level                  text
debugger.logging_dir                folder

# --- files (sections/files.py)
load.missing                        path
load.text                           text
load.not_a_model                    folder
save.missing_folder                 path
save.good                           folder
save.format                         text
save.format.object                  text
save.extra_file.name                text
save.extra_file.value               text
export.save.missing_folder          path
export.load.missing                 path
jit.load.missing                    path
mutable.load.missing                path

# --- torch.compile (sections/dynamo.py)
dynamo.graph_break.message          text
dynamo.guard.string                 text
dynamo.guard.global                 name
dynamo.fullgraph.message            text
dynamo.unsupported.name             name
dynamo.disabled.reason              text
dynamo.disabled.function            identifier  torch.compile.declaration.function
dynamo.allowed.function             identifier  torch.compile.declaration.function
dynamo.cache.function               identifier  torch.compile.declaration.function
dynamo.skip_frame.message           text
dynamo.option.name                  name
dynamo.option.value                 text
dynamo.backend.name                 text
dynamo.mode                         text
dynamo.check.message                text
dynamo.forward.raises               text
dynamo.hook.raises                  text
dynamo.torch_function.raises        text

# --- messages of PyTorch that quote a value (sections/messages.py)
check.plain                         text
check.value                         text
check.type                          text
check.index                         text
check.not_implemented               text
check.tensor_all                    text
check.is_size                       text
assert.torch                        text
assert.async.operator               text
assert.async                        text
assert.close                        text
assert.close.names                  text
assert.in_thread                    text
library.gain                        text
library.reduction                   text
library.interpolate                 text
library.padding                     text
library.einsum                      text
library.device                      text
library.device.torch_tensorrt       text
library.dtype                       text
library.input_format                text
library.overload                    name
library.operator.missing            name
library.namespace.missing           name
library.attribute.module            text
library.attribute.quoted            text
library.attribute.tensor            text
library.submodule.missing           person
library.parameter.missing           person
library.parameter.dot               mail
library.parameter.taken             person
library.module.taken                person
library.state_dict.unexpected       text
library.state_dict.missing          person
library.state_dict.strict_key       text
library.module_dict.key             text
library.load.quotes                 text
library.save.folder                 path
library.jit_load                     path
library.hub                         text
library.autocast                    text
library.generator                   text
library.schema                      text
library.layout                      text
library.memory_format               text
library.distributed.backend         text
library.checkpoint.keyword          name
library.data_loader.raises          text
library.data_loader.keyword         name
library.optimizer.keyword           name
library.optimizer.value             text
library.fx.symbolic                 text
library.fx.target                   name
library.dispatch_key                text
library.profiler                    text
library.rnn.mode                    text
library.activation                  text
library.norm                        text
library.multiprocessing             text
library.classes                     name
library.fft.norm                    text
library.indexing                    text
library.linalg                      text
library.meshgrid                    text

# --- exceptions of the program in spans of observed functions (sections/observing.py)
exception.message                   text
exception.argument.dict             text
exception.argument.object           text
exception.argument.subclass         text
exception.str                       text
exception.repr                      text
exception.note                      text
exception.cause                     text
exception.context                   text
exception.suppressed                text
exception.group.message             text
exception.group.member              text
exception.lines                     text
exception.large                     text
exception.key                       text
exception.os.path                   path
exception.os.second_path            path
exception.unicode                   text
exception.attribute                 text
exception.import.name               name
exception.subprocess.command        text
exception.json                      text
exception.class.identifier          identifier  error.type exception.type
exception.class.text                text
exception.class.module              name        error.type exception.type
exception.class.qualname            text
exception.class.nested              identifier  error.type exception.type
exception.from_torch.class          identifier  error.type exception.type
exception.handed_to_torch           text
function.name.identifier            name        span.name code.function.name torchspan.progress.running? torchspan.open_ancestors.names?
function.name.text                  text
function.name.control               text
function.name.long                  text
function.module.identifier          name        code.function.name
function.module.text                text
function.argument                   text
function.keyword.name               name
function.keyword.value              text
function.result                     text
function.local                      text
function.docstring                  text
function.annotation                 text
function.default                    text
function.closure                    text
function.file.text                  text
function.file.home                  folder
function.file.name                  name        code.file.path
function.raises.name.identifier     name        code.function.name
function.raises.name.text           text
function.generator                  text
function.coroutine                  text
# --- a module whose calls are followed (sections/followed.py)
followed.class.name                 identifier  torchspan.input.module
followed.argument.name              name        torchspan.input.path torchspan.input.paths torchspan.input.outside.paths torchspan.input.drift.path
followed.keyword                    name
followed.dict.key                   text
followed.string                     text

observer.name.identifier            name        torchspan.observer.name log.body?
observer.name.text                  text        log.body?
observer.argument                   text
observer.raises                     text        log.body? log.exception.message? log.exception.stacktrace?
observer.callback.name              name        log.body?
observer.tensorrt.name              name        torchspan.observer.name
callback.name                       name        log.body?
callback.raises.start               text        log.body? log.exception.message? log.exception.stacktrace?
callback.raises.end                 text        log.body? log.exception.message? log.exception.stacktrace?
record.name                         text
record.input                        text
record.output                       text
describe.shape.raises               text
describe.class.raises               text
describe.getattr.raises             text
thread.name                         text
thread.pool.prefix                  text
task.name                           text
context_variable.name               text
context_variable.value              text
logger.name                         text
logger.message                      text
warning.text                        text
user.span.name                      text        torchspan.open_ancestors.names?
user.span.attribute                 text
user.event.name                     text
user.link.attribute                 text
user.status                         text
user.metric.name                    name
user.metric.attribute               text
user.scope.name                     text
baggage.key                         name
baggage.value                       text
tracestate                          name        span.state

# --- TensorRT by itself (sections/tensorrt_lines.py)
trt.layer.slice                     word
trt.layer.matmul                    word
trt.layer.concat                    word
trt.layer.elementwise               word
trt.layer.softmax                   word
trt.layer.gather                    word
trt.layer.shuffle                   word
trt.layer.text                      text
trt.layer.taken                     word
trt.tensor.taken                    word
trt.tensor.input                    word
trt.tensor.text                     text
trt.network.name                    text
trt.profile.tensor                  word
trt.log.warning                     text
trt.log.error                       text
trt.log.quoted                      text
trt.log.apostrophe                  text
trt.log.brackets                    text
trt.log.operator                    text
trt.log.last                        text
trt.logger.class.identifier         identifier  tensorrt.build.logger
trt.logger.class.text               text
trt.logger.raises                   text
trt.weights.name                    text
trt.engine.bytes                    text

# --- ONNX models (sections/onnx_models.py)
onnx.op_type.identifier             identifier
onnx.op_type.text                   text
onnx.domain                         text
onnx.node.name                      word
onnx.node.name.text                 text
onnx.node.doc                       text
onnx.tensor.input                   word
onnx.tensor.output                  word
onnx.tensor.between                 word
onnx.initializer.name               word
onnx.initializer.value              text
onnx.initializer.string             text
onnx.graph.name                     text
onnx.graph.doc                      text
onnx.producer                       text
onnx.metadata.key                   text
onnx.metadata.value                 text
onnx.external.location              path
onnx.dim_param                      text
onnx.attribute.name                 word
onnx.attribute.string               text
onnx.function.name                  word
onnx.path.missing                   path
onnx.path.parent                    folder
onnx.bytes                          text

# --- the process, and those that it starts (sections/processes.py, conftest.py)
process.argument                    text
process.argument.option             text
process.argument.script             path
process.variable.name               name
process.variable.value              text
process.secret                      key
process.home                        folder
process.user                        text
process.host                        text
process.working_folder              folder
process.import_path                 folder
process.title                       text
process.stdin                       text
child.argument                      text
child.code                          text
child.variable                      text
child.working_folder                folder
child.raises                        text
child.baggage.key                   name
child.baggage.value                 text
child.process.name                  text
child.process.raises                text
child.crash.function                name
child.crash.file                    name
child.script.text                   folder
child.script.identifier             name        service.name code.file.path
child.module.identifier             name        service.name code.file.path
child.shell.command                 key
child.emptied.variable              text

# --- a file of observed inputs (sections/inputs.py)
observed.class.identifier           identifier
observed.parameter.name             name
observed.opaque.identifier          identifier
observed.opaque.text                text
observed.opaque.value               text
observed.namedtuple.field           name
observed.constant.default           text
observed.constant.string            text
observed.constant.other             text
observed.keyword.name               name
observed.keyword.value              text
observed.dict.key                   text
observed.dict.identifier            name
observed.dict.value                 text
observed.list.string                text
observed.ordered_dict.key           text
observed.long_string                text
observed.missing.key                text
observed.other.key                  text
observed.context                    text

# --- operators (sections/operators.py)
operators.range.text                text
operators.range.name                name
operators.function.name             name
"""

PLACES = {place.name: place for place in _rows(_TABLE)}
assert len(words.SURNAMES) >= len(PLACES), "a surname belongs to one place alone"
_NUMBERS = {name: number for number, name in enumerate(PLACES)}


class Canary(NamedTuple):
    """What is planted in one place. surname: belongs to this place alone. others: words of other places too."""

    text: str
    surname: str
    others: tuple


def canary(name):
    """The canary of a place."""
    place, number = PLACES[name], _NUMBERS[name]
    first = words.FIRST_NAMES[number % len(words.FIRST_NAMES)]
    last = words.SURNAMES[number]
    company = words.COMPANIES[number % len(words.COMPANIES)]
    digits = " ".join(words.DIGITS[int(digit)] for digit in f"{4711 + 13 * number:04d}")
    text, others = {
        "person": (f"{first} {last}", (first,)),
        "mail": (f"{first}.{last}@{company}.example".lower(), (first, company)),
        "key": (f"sk-live-{last}{company}", (company,)),
        "path": (f"/srv/{first}/{company} {last}/{last}".lower(), (first, company)),
        "folder": (f"{first} {last} {company}", (first, company)),
        "number": (f"account {digits} {last}", (digits,)),
        "company": (f"{company} buys {last}", (company,)),
        "sentence": (f"patient {first} {last} isn't paying '{company}'", (first, company)),
        "identifier": (f"{last}Thing", ()),
        "name": (f"{last}_thing".lower(), ()),
        "word": (last.lower(), ()),
    }[place.form]
    return Canary(text, last.lower(), tuple(each.lower() for each in others))
