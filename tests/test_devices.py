"""Every kernel on tensors that say cuda, on a machine that has none, and under another
default device than the CPU.

The CPU computes; what is refused is what a GPU refuses: operands on two devices, a
generator of the CPU for a draw on the GPU, products of integers. torch's own
FakeTensorMode cannot serve: it holds no values, which every check looks at, and where
torch is built without CUDA it fails at a slice and ends the process at a derivative.
The calls are the good ones of tests/fuzz_calls.py.
"""

from __future__ import annotations

import dataclasses
import inspect
import re

import pytest
import torch
from fuzz_calls import ROOMS, normal
from test_fuzz import alike, leaves, resolve, run
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from attnlib.patterns import Lists

pytestmark = [
    pytest.mark.again,
    pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad"),
]
CPU = torch.device("cpu")
CUDA = torch.device("cuda", 0)
T = torch.Tensor
INDEXED = (T.__getitem__, T.__setitem__)  # an index may lie on the CPU
PRODUCTS = {"matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "einsum", "linear"}
BITS = ("patterns.bits.", "patterns.hamilton.impossible")
KERNELS = {
    name: row
    for room, rows in ROOMS.items()
    if room not in ("data", "audit")
    for name, row in rows().items()
}
TRAINER = "data.networks.train_reader"
KERNELS[TRAINER] = ROOMS["data"]()[TRAINER]


class SaysCuda(TorchFunctionMode):
    """Under it tensors say that they lie on cuda, unless they were made on the CPU.

    Args:
        host: tensors on the CPU from the start.
    """

    def __init__(self, *host):
        super().__init__()
        self.host = {}
        self.copies = []  # names of what copied to the CPU
        self.put(host)

    def put(self, tensors):
        """From now on these, and what shares their memory, lie on the CPU."""
        for t in tensors:
            own = memory(t)
            self.host[own._cdata] = own  # held, so that nothing else gets its address

    def device(self, t):
        return CPU if memory(t)._cdata in self.host else CUDA

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func == T.device.__get__:
            return self.device(args[0])
        if func == T.is_cuda.__get__:
            return self.device(args[0]) == CUDA
        if func == T.is_cpu.__get__:
            return self.device(args[0]) == CPU
        if func is T.backward:
            return self.differentiate([args[0]])
        given = tensors_in((args, kwargs))
        on_cuda = [t for t in given if self.device(t) == CUDA]
        asked = self.asked(func, args, kwargs)
        where = asked or (CUDA if on_cuda else CPU)
        self.refuse(func, given, on_cuda, where)
        if where == CUDA and any(is_generator(g) for g in tree_leaves((args, kwargs))):
            raise RuntimeError("Expected a 'cuda' device type for generator")
        if where == CPU and any(t.dim() for t in on_cuda):
            self.copies.append(func.__name__)
        args, kwargs = tree_map(on_this_machine, (args, kwargs))
        if func in (T.cpu, T.cuda):
            func, args = T.to, (args[0], CPU)
        made = func(*args, **kwargs)
        if func is T.to and memory(made)._cdata == memory(given[0])._cdata:
            made = made if self.device(made) == where else made.clone()
        if where == CPU:
            self.put(tensors_in(made))
        return made

    def differentiate(self, tensors):
        """torch.autograd.backward, which would not watch our own derivatives; called
        where this mode is off.
        """
        ones = tuple(torch.ones_like(t) for t in tensors)
        with self:
            torch.autograd.Variable._execution_engine.run_backward(
                tuple(tensors), ones, False, False, (), True, accumulate_grad=True
            )

    def asked(self, func, args, kwargs):
        """The device that a call asks for, or None."""
        if func in (T.cpu, T.cuda):
            return CPU if func is T.cpu else CUDA
        if func is T.copy_:
            return self.device(args[0])
        places = [kwargs.get("device"), kwargs.get("other")]
        if func is T.to:
            places += args[1:2]
        for place in places:
            if torch.is_tensor(place):
                return self.device(place)
            if isinstance(place, str | torch.device):
                return CUDA if torch.device(place).type == "cuda" else CPU
        return None

    def refuse(self, func, given, on_cuda, where):
        """What a GPU would not do."""
        name = func.__name__
        on_cpu = [t for t in given if self.device(t) == CPU and t.dim()]
        moved = func in (T.to, T.copy_)
        indexed = func in INDEXED and self.device(given[0]) == CUDA
        if on_cuda and on_cpu and not moved and not indexed:
            raise RuntimeError(f"{name}: expected all tensors on the same device")
        real = all(t.is_floating_point() or t.is_complex() for t in on_cuda)
        if name in PRODUCTS and not real:
            raise RuntimeError(f'"{name}_cuda" not implemented for integers')
        if func is T.numpy and on_cuda:
            raise TypeError("can't convert cuda:0 device type tensor to numpy")


def memory(t):
    if t.layout == torch.sparse_csr:
        t = t.values()
    return t.untyped_storage()


def tensors_in(values):
    return [leaf for leaf in tree_leaves(values) if torch.is_tensor(leaf)]


def is_generator(value):
    return isinstance(value, torch.Generator)


def on_this_machine(value):
    is_name = isinstance(value, str) and value.startswith("cuda")
    return CPU if is_name or isinstance(value, torch.device) else value


@pytest.fixture
def no_gpu(monkeypatch):
    """What no mode of torch sees: arrays that become tensors, and free memory."""
    modes = []
    made = torch.from_numpy

    def from_numpy(array):
        t = made(array)
        modes[0].put([t])
        return t

    monkeypatch.setattr(torch, "from_numpy", from_numpy)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**30, 2**30))
    return modes


def parts_of(value, kind):
    """The objects of a kind inside lists, tuples and dataclasses."""
    if isinstance(value, kind):
        return [value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    found = []
    for part in value if isinstance(value, list | tuple) else ():
        found += parts_of(part, kind)
    return found


def on_cuda(row):
    """The good call with tensors that want derivatives, a device that is cuda, and
    draws that are made before.
    """
    changed = {}
    for name, value in row.items():
        if name == "device":
            value = "cuda"
        if name == "draw":
            drawn = value()
            value = lambda drawn=drawn: drawn  # noqa: E731
        if torch.is_tensor(value) and value.is_floating_point():
            value = value.clone().requires_grad_()
        changed[name] = value
    return changed


def tried(function, row, modes):
    """What a call and its derivatives copied to the CPU, and what of the answer lies
    there though an argument does not.
    """
    row = on_cuda(row)
    lists = parts_of(list(row.values()), Lists)
    mode = SaysCuda(*[t for part in lists for t in (part.crow, part.col)])
    modes[:] = [mode]
    with mode:
        answer = run(function, row)
    answers = [t for t in leaves(answer) if torch.is_tensor(t)]
    mode.differentiate([t for t in answers if t.requires_grad])
    given = parts_of(list(row.values()), torch.Tensor)
    if "device" not in row and all(mode.device(t) == CPU for t in given):
        return mode.copies, []
    return mode.copies, [t for t in answers if mode.device(t) == CPU]


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_works_where_its_tensors_are(name, no_gpu):
    function, row = resolve(name), KERNELS[name]
    if name.startswith(BITS):
        with pytest.raises(ValueError, match="on the CPU"):
            tried(function, row, no_gpu)
        return
    copies, host = tried(function, row, no_gpu)
    if copies or host:
        assert re.search(r"\bCPU\b", inspect.getdoc(function)), (copies, host)


# --- controls: functions of which each does what fails on a GPU ---


def adds_two_devices(x):
    return x + torch.zeros(len(x), 1)


def draws_on_the_gpu(x, generator):
    return torch.randn(3, generator=generator, device=x.device)


def fills_on_the_gpu(x, generator):
    return x.detach().normal_(generator=generator)


def multiplies_integers(x):
    return x.long() @ x.long().mT


def becomes_an_array(x):
    return x.detach().numpy()


def goes_home(x):
    return x.cpu()


class Slips(torch.autograd.Function):
    """Its derivative is made on the CPU."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return g * torch.full(g.shape, 2.0)


def differentiates_elsewhere(x):
    return Slips.apply(x)


X = torch.arange(6.0).view(2, 3)
SEEDED = {"x": X, "generator": torch.Generator()}


@pytest.mark.parametrize(
    ("function", "row", "words"),
    [
        (adds_two_devices, {"x": X}, "on the same device"),
        (differentiates_elsewhere, {"x": X}, "on the same device"),
        (draws_on_the_gpu, SEEDED, "device type for generator"),
        (fills_on_the_gpu, SEEDED, "device type for generator"),
        (multiplies_integers, {"x": X}, "not implemented for integers"),
        (becomes_an_array, {"x": X}, "can't convert"),
    ],
)
def test_what_fails_on_a_gpu_is_found_out(function, row, words, no_gpu):
    with pytest.raises((RuntimeError, TypeError), match=words):
        tried(function, row, no_gpu)


def test_a_copy_to_the_cpu_is_seen(no_gpu):
    copies, host = tried(goes_home, {"x": X}, no_gpu)
    assert copies == ["cpu"]
    assert len(host) == 1


# --- another default device ---


@pytest.mark.parametrize("name", KERNELS)
def test_another_default_device_changes_nothing(name):
    """What no argument places is on the CPU; a module lies where torch's modules do."""
    function, row = resolve(name), KERNELS[name]
    wanted = run(function, row)
    with torch.device("meta"):
        found = run(function, row)
    if name != "data.mixers.MixingNetwork":
        assert alike(found, wanted, 1e-6)


def test_a_tensor_without_a_device_follows_the_default():
    with torch.device("meta"):
        assert torch.zeros(1).is_meta


# --- settings of torch under which products are rounded more than numbers say ---

STATE = {  # what these say about numbers holds to rounding
    "codes.coherence",
    "codes.margins",
    "collapse.log_bound",
    "collapse.log_diameter_bound",
    "efficacy.length_bounds",
    "expressive.verification.verify",
    "memorize.dense.fit_groups",
    "memorize.line.relu_layer",
    "universal.standard.run_standard",
}


# The products of their good calls are those of unit vectors, exact in any precision.
INEXACT = {
    "codes.coherence": {"keys": normal(4, 3)},
    "codes.margins": {"q": normal(3, 3), "k": normal(3, 3) + 1},
}


def single(row):
    """The good call in float32, its objects too."""
    if isinstance(row, dict):
        return {name: single(value) for name, value in row.items()}
    if torch.is_tensor(row) and row.dtype == torch.float64:
        return row.float()
    if isinstance(row, tuple) and hasattr(row, "_replace"):
        return type(row)(*map(single, row))
    if isinstance(row, list | tuple):
        return type(row)(map(single, row))
    if dataclasses.is_dataclass(row):
        own = {f.name: getattr(row, f.name) for f in dataclasses.fields(row)}
        tensors = {name: t for name, t in own.items() if torch.is_tensor(t)}
        layers = {name: t for name, t in own.items() if name in ("layer", "mlp")}
        return dataclasses.replace(row, **single(tensors | layers))
    return row


@pytest.mark.parametrize("name", sorted(STATE))
def test_autocast_does_not_move_what_is_stated(name):
    function = resolve(name)
    row = single(KERNELS[name] | INEXACT.get(name, {}))
    wanted = run(function, row)
    with torch.autocast("cpu", torch.bfloat16):
        found = run(function, row)
        assert (torch.eye(2) @ torch.eye(2)).dtype == torch.bfloat16
    assert alike(found, wanted, 0)


def test_autocast_moves_what_is_not_on_the_list():
    row = single(KERNELS["attention.merged"])
    function = resolve("attention.merged")
    with torch.autocast("cpu", torch.bfloat16):
        found = run(function, row)
    assert not alike(found, run(function, row), 1e-3)


@pytest.mark.parametrize("setting", ["high", "medium"])
def test_a_float32_code_is_not_certified_by_rounded_products(setting):
    function = resolve("expressive.verification.verify")
    row = KERNELS["expressive.verification.verify"]
    code = dataclasses.replace(
        row["code"], q=row["code"].q.float(), k=row["code"].k.float()
    )
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(setting)
        with pytest.raises(ValueError, match="full precision"):
            run(function, row | {"code": code})
    finally:
        torch.set_float32_matmul_precision(before)
    run(function, row | {"code": code})
