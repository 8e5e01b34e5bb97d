"""sparse_attention in the place of torch's attention: compiled, under torch.func, with
cached keys, shared heads and a scale that is learned; and the literal form.
"""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys

import jaxtyping
import pytest
import torch
from torch.nn import functional as F

from attnlib import patterns
from attnlib.patterns import Columns, Pattern, Rows, Strided, Window, build
from attnlib.sparse import _torch, masked_attention, sparse_attention
from attnlib.sparse._tiles import tiles_of

# what the compiler itself says of tensors that are no leaves, and of its own ways
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),
    pytest.mark.filterwarnings("ignore:.*Function'> should not be instantiated"),
]

EPS = 1e-12
N = 70


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def instance(n, batch=(), d=4, d_v=3, seed=0, dtype=torch.float64, device="cpu"):
    g = generator(seed)
    return [
        torch.randn(*batch, n, s, generator=g, dtype=torch.float64)
        .to(device, dtype)
        .requires_grad_()
        for s in (d, d, d_v)
    ]


def largest(one, other) -> float:
    return max(float((a - b).detach().abs().max()) for a, b in zip(one, other))


def same(y, wanted, inputs, within=1e-10):
    """Values and gradients agree."""
    grads = [torch.autograd.grad(t.square().sum(), inputs) for t in (y, wanted)]
    assert largest([y], [wanted]) < within
    assert largest(*grads) < within


PATTERNS = {
    "thin window": patterns.window(N, 5),
    "window": patterns.window(N, 33),
    "star": patterns.star(N),
    "global rows": build(N, [Window(20, 20), Columns((0, 9)), Rows((0, N - 1))]),
    "strided": patterns.one_step(patterns.strided(N, 16)),
    "random": patterns.random(N, 8, generator=generator()),
    "causal": patterns.causal(build(N, [Window(20, 20), Strided(5)])),
}


# --- torch.compile ---


@pytest.fixture
def no_shape_checks(monkeypatch):
    """The compiler does not trace the checks of shapes that only tests have."""
    for kind in (_torch._Attention, _torch._Gradients):
        for name in ("forward", "setup_context", "backward"):
            bare = inspect.unwrap(getattr(kind, name))
            monkeypatch.setattr(kind, name, staticmethod(bare))
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


new_enough = pytest.mark.skipif(
    tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 13),
    reason="torch.compile up to 2.11 takes no pattern: it is a frozen dataclass",
)


def compiles(test):
    """Marks a test that compiles."""
    return new_enough(pytest.mark.usefixtures("no_shape_checks")(test))


def compiled(**how):
    torch._dynamo.reset()
    return torch.compile(sparse_attention, fullgraph=True, backend="aot_eager", **how)


@compiles
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_compiled_call_is_the_eager_one(dynamic):
    """Cold, with each pattern once, and warm; every pattern gives its own numbers."""
    run = compiled(dynamic=dynamic)
    inputs = instance(N, (2, 3))
    for pattern in [*PATTERNS.values(), *PATTERNS.values()]:
        same(run(*inputs, pattern), sparse_attention(*inputs, pattern), inputs, EPS)


@compiles
def test_compiled_with_all_that_a_call_can_have():
    q, k, v = inputs = instance(N, (2, 4))
    scale = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    step = [1, 0, 0, 1]
    how = {"step": step, "scale": scale, "enable_gqa": True, "return_lse": True}
    pattern = patterns.strided(N)
    found = []
    for run in (compiled(), sparse_attention):
        y, lse = run(q[..., -9:, :], k[:, :2], v[:, :2], pattern, **how)
        grads = torch.autograd.grad(y.sum() + lse.sum(), (*inputs, scale))
        found.append((y, lse, *grads))
    assert largest(*found) < EPS


COLD = """
import sys
import torch
from attnlib import patterns
from attnlib.sparse import sparse_attention
q, k, v = torch.randn(3, 2, 60, 8, requires_grad=True).unbind()
drawn = patterns.random(60, 8, generator=torch.Generator())
run = torch.compile(sparse_attention, fullgraph=True, backend=sys.argv[1])
run(q, k, v, drawn).sum().backward()
print("done")
"""


@pytest.mark.wide
@new_enough
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiled_call_comes_first_in_a_process(backend):
    if backend == "inductor" and not shutil.which("g++"):
        pytest.skip("no C++ compiler")
    done = subprocess.run(
        [sys.executable, "-c", COLD, backend],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr


@compiles
def test_a_compiled_call_looks_at_its_input():
    run = compiled()
    q, k, v = instance(N)
    with pytest.raises(ValueError, match="q holds NaN"):
        run(q * torch.nan, k, v, PATTERNS["star"])
    assert run(q * torch.nan, k, v, PATTERNS["star"], check=False).isnan().any()
    with pytest.raises(ValueError, match=r"k must have shape \(70, 4\)"):
        run(q, k[:, :3], v, PATTERNS["star"])


@compiles
def test_equal_patterns_share_their_compiled_tiles():
    """A pattern that is made again is compiled again, but its tiles are found."""
    run = compiled()
    inputs = instance(N)
    run(*inputs, patterns.window(N, 41))
    before = misses()
    run(*inputs, patterns.window(N, 41))
    assert misses() == before


@pytest.mark.parametrize("name", ["strided", "random"])
def test_torch_checks_the_operators(name):
    """Schema, fake tensors, and gradients under AOTAutograd, by torch's own tests."""
    q, k, v = (t.detach() for t in instance(N, (2,)))
    number = _torch._number(PATTERNS[name], 0)
    torch.library.opcheck(_torch._operator, (q, k, v, number, "q"))
    out, lse = _torch._operator(q, k, v, number, "")
    given = (q, k, v, out, lse, out, lse, number)
    torch.library.opcheck(_torch._operator_backward, given)


def test_tensors_without_values_have_shapes():
    q, k, v = (t.to("meta") for t in instance(N, (2,)))
    y, lse = sparse_attention(q, k, v, PATTERNS["star"], return_lse=True)
    assert y.is_meta
    assert y.shape == (2, N, 3)
    assert lse.shape == (2, N)


# --- torch.func ---


def literal(pattern):
    mask = pattern.mask()

    def run(q, k, v):
        return masked_attention(q, k, v, mask)

    return run


def ours(pattern):
    def run(q, k, v):
        return sparse_attention(q, k, v, pattern)

    return run


@pytest.mark.parametrize("name", PATTERNS)
def test_vmap_and_grad(name):
    pattern = PATTERNS[name]
    q, k, v = (t.detach() for t in instance(N, (2, 3)))
    found = []
    for run in (ours(pattern), literal(pattern)):

        def loss(q, k, v, run=run):
            return run(q, k, v).square().sum()

        mapped = torch.func.vmap(run, in_dims=(0, 1, None))
        gradient = torch.func.grad(loss, argnums=(0, 1, 2))
        each = torch.func.vmap(gradient, in_dims=(0, None, 1))
        found.append(
            (
                mapped(q, k.transpose(0, 1), v[0]),
                *gradient(q, k, v),
                *each(q, k[0], v.transpose(0, 1)),
            )
        )
    assert largest(*found) < 1e-10


def test_jacobians():
    pattern = build(11, [Window(1, 1, 2), Strided(4), Columns((10,))])
    q, k, v = (t.detach() for t in instance(11))
    found = [
        torch.func.jacrev(run)(q, k, v) for run in (ours(pattern), literal(pattern))
    ]
    assert largest([found[0]], [found[1]]) < EPS


def test_vmap_looks_at_its_input():
    q, k, v = (t.detach() for t in instance(N, (2,)))
    with pytest.raises(ValueError, match="v holds NaN"):
        torch.func.vmap(ours(PATTERNS["star"]))(q, k, v * torch.inf)


@pytest.mark.parametrize("name", PATTERNS)
def test_second_derivatives(name):
    """Of a sum of squares of first ones: in the graph, and by torch.func."""
    pattern = PATTERNS[name]
    inputs = instance(N, (2,))
    q, k, v = (t.detach() for t in inputs)
    found = []
    for run in (ours(pattern), literal(pattern)):

        def size(q, run=run):
            def loss(q):
                return run(q, k, v).square().sum()

            return torch.func.grad(loss)(q).square().sum()

        first = torch.autograd.grad(run(*inputs).sin().sum(), inputs, create_graph=True)
        of_all = sum(t.square().sum() for t in first)
        second = torch.autograd.grad(of_all, inputs)
        found.append((*second, torch.func.grad(size)(q)))
    assert largest(*found) < 1e-10


# --- n_q, heads, scale, step ---


@pytest.mark.parametrize("m", [1, 5, 32, 50, N - 1])
@pytest.mark.parametrize("name", PATTERNS)
def test_the_last_queries(name, m):
    pattern = PATTERNS[name]
    inputs = instance(N, (2, 3), seed=m)
    q, k, v = inputs
    y = sparse_attention(q[..., -m:, :], k, v, pattern)
    same(y, masked_attention(q[..., -m:, :], k, v, pattern.mask()[-m:]), inputs, EPS)
    assert largest([y], [sparse_attention(*inputs, pattern)[..., -m:, :]]) < EPS


def test_decoding_token_by_token():
    """With cached keys each new token gives its row of the whole."""
    q, k, v = (t.detach() for t in instance(40, (2,)))

    def pattern(n):
        return patterns.causal(build(n, [Window(4, 4), Strided(7)]))

    whole = sparse_attention(q, k, v, pattern(40))
    for n in range(2, 41):
        cached = [t[:, :n] for t in (k, v)]
        row = sparse_attention(q[:, n - 1 : n], *cached, pattern(n))
        assert largest([row], [whole[:, n - 1 : n]]) < EPS


def test_one_query_reads_its_keys_alone():
    (step,) = patterns.causal(patterns.window(4096, 65)).steps
    ((tiles,), _) = tiles_of(step, 4096, 1, torch.float32, torch.device("cpu"))
    assert tiles.queries.table.tolist() == [[0]]
    assert tiles.keys.table.shape == (1, 33)


@pytest.mark.parametrize("shared", [1, 2, 4])
def test_grouped_queries(shared):
    q, k, v = instance(N, (2, 4), d_v=4)
    few = [t[:, :shared].detach().requires_grad_() for t in (k, v)]
    mask = PATTERNS["strided"].mask()
    y = sparse_attention(q, *few, PATTERNS["strided"], enable_gqa=True)
    wanted = F.scaled_dot_product_attention(q, *few, attn_mask=mask, enable_gqa=True)
    same(y, wanted, (q, *few), EPS)


def test_a_scale_that_is_learned():
    inputs = instance(N, (2,))
    scale = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    y = sparse_attention(*inputs, PATTERNS["window"], scale=scale)
    wanted = masked_attention(*inputs, PATTERNS["window"].mask(), scale=scale)
    same(y, wanted, (*inputs, scale))
    number = sparse_attention(*inputs, PATTERNS["window"], scale=0.3)
    assert largest([y], [number]) < EPS


def test_a_scale_does_not_round_halves():
    inputs = [t.detach() for t in instance(N, (2,), dtype=torch.bfloat16)]
    scale = torch.tensor(0.3)
    one = sparse_attention(*inputs, PATTERNS["window"], scale=scale, return_lse=True)
    other = sparse_attention(*inputs, PATTERNS["window"], scale=0.3, return_lse=True)
    assert [t.dtype for t in one] == [torch.bfloat16, torch.float32]
    assert largest(one[1:], other[1:]) < 1e-5


@pytest.mark.again
def test_gradcheck_of_all_inputs():
    q, k, v = instance(9, (2,), d=2, d_v=2)
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    pattern = build(9, [Window(1, 1, 2), Strided(4), Columns((8,))])

    def run(q, k, v, scale):
        how = {"scale": scale, "enable_gqa": True, "return_lse": True}
        return sparse_attention(q[..., -4:, :], k[:1], v[:1], pattern, **how)

    assert torch.autograd.gradcheck(run, (q, k, v, scale))


def test_steps_must_be_chosen():
    inputs = [t.detach() for t in instance(N)]
    two = patterns.strided(N)
    with pytest.raises(ValueError, match="step must be given.* p = 2 steps"):
        sparse_attention(*inputs, two)
    first = sparse_attention(*inputs, two, step=0)
    assert torch.equal(first, sparse_attention(*inputs, Pattern(N, two.steps[:1])))


# --- tiles are kept ---


def misses() -> int:
    return tiles_of.cache_info().misses


def test_tiles_are_kept_by_content():
    """Equal lists share them, though their tensors are others; other lists do not."""
    inputs = [t.detach() for t in instance(N)]
    mask = PATTERNS["random"].mask()
    before = misses()
    for _ in range(3):
        sparse_attention(*inputs, patterns.from_masks(mask.clone()))
    assert misses() <= before + 1
    mask[0, 5] ^= True
    before = misses()
    y = sparse_attention(*inputs, patterns.from_masks(mask))
    assert misses() == before + 1
    assert largest([y], [masked_attention(*inputs, mask)]) < EPS


# --- the literal form ---


def test_masked_attention_is_torch_s():
    q, k, v = inputs = instance(N, (2, 3), d_v=4)
    for mask in (PATTERNS["random"].mask(), torch.rand(2, 1, N, N) < 0.9):
        wanted = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3)
        same(masked_attention(*inputs, mask, scale=0.3), wanted, inputs)


# --- what is refused ---

REFUSED = {
    "more queries than keys": (
        lambda q, k, v: sparse_attention(q, k[:5], v[:5], patterns.window(5, 3)),
        "q has 6 tokens, k only 5",
    ),
    "infinity as scale": (
        lambda q, k, v: sparse_attention(
            q, k, v, patterns.window(6, 3), scale=torch.tensor(torch.inf)
        ),
        r"q \* scale holds NaN or infinity",
    ),
    "scales": (
        lambda q, k, v: sparse_attention(
            q, k, v, patterns.window(6, 3), scale=torch.ones(2)
        ),
        r"scale must be .* got torch.float32 \(2,\)",
    ),
    "heads": (
        lambda q, k, v: sparse_attention(
            *(t.expand(h, 6, -1) for h, t in ((3, q), (2, k), (2, v))),
            patterns.window(6, 3),
            enable_gqa=True,
        ),
        "the 3 heads of q must be a multiple of the 2 heads of k",
    ),
    "no heads": (
        lambda q, k, v: sparse_attention(
            q, k, v, patterns.window(6, 3), enable_gqa=True
        ),
        r"q must be \(\*batch, h, n, d\), got \(6, 4\)",
    ),
}


@pytest.mark.bad_input
@pytest.mark.parametrize("name", REFUSED)
def test_bad_input(name):
    call, words = REFUSED[name]
    with torch.no_grad(), pytest.raises(ValueError, match=words):
        call(*instance(6))
