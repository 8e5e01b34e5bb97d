"""What verify costs beside the bare matrix product, and which floor it stands on; writes verify_speed.json.

    python book/_experiments/verify_speed.py [--quick]

One thread, CPU time, in turn; the unit is the product of queries and keys in 32-bit floats, in tiles, and nothing else.
"integer product" is the 8-bit product alone, in the tiles of verify: no exact verification by it can be quicker.
"one pass" takes a maximum over every tile, without any product. "quantised" is the other public way to 8-bit products.
"""

from __future__ import annotations

import statistics
import sys
import time

import store
import torch

from attnlib.expressive import Code, verify

D, K = 128, 4


def runs(n: int, g: torch.Generator) -> dict:
    columns = torch.randint(n // K, (n, K), generator=g) + n // K * torch.arange(K)  # distinct within a row
    real = Code(torch.randn(n, D, generator=g) / 16, torch.randn(n, D, generator=g), 0.1, 0.5)
    signs = torch.randint(0, 2, (n, D), generator=g, dtype=torch.int8) * 2 - 1
    whole = Code(sum(signs[c] for c in columns.T), signs, 0.1, 0.5, 0.1)

    def tiles(high: int, wide: int, one) -> None:
        for i in range(0, n, high):
            for j in range(0, n, wide):
                one(slice(i, i + high), slice(j, j + wide))

    flat, broad = torch.empty(256, 2048), torch.empty(1024, 256, dtype=torch.int32)
    shifted = (whole.q.to(torch.int16) + 128).to(torch.uint8)
    one, zero = torch.ones(1), torch.zeros(1, dtype=torch.int64)

    def quantised(i: slice, j: slice) -> None:
        torch.ops.onednn.qlinear_pointwise(shifted[i], 1.0, 128, packed[j.start], one, zero, None, 1.0, 0, torch.float32, "none", [], "")

    found = {
        "product": lambda: tiles(256, 2048, lambda i, j: torch.mm(real.q[i], real.k[j].T, out=flat)),
        "float": lambda: verify(real, columns, progress=False),
        "rows": lambda: [torch.logsumexp(real.q[i : i + 256] @ real.k.T, 1) for i in range(0, n, 256)],
        "integer": lambda: verify(whole, columns, progress=False),
        "integer product": lambda: tiles(1024, 256, lambda i, j: torch._int_mm(whole.q[i], whole.k[j].T, out=broad)),
        "one pass": lambda: tiles(1024, 256, lambda i, j: broad.amax(1)),
    }
    try:
        packed = {j: torch.ops.onednn.qlinear_prepack(signs[j : j + 256], [1024, D]) for j in range(0, n, 256)}
        quantised(slice(0, 1024), slice(0, 256))
        found["quantised"] = lambda: tiles(1024, 256, quantised)
    except (AttributeError, RuntimeError) as missing:
        print("quantised: not run,", missing)
    return found


def main(quick: bool) -> None:
    torch.set_num_threads(1)
    n, rounds, began = 2**11 if quick else 2**15, 2 if quick else 3, time.perf_counter()
    for call in runs(2**11, torch.Generator().manual_seed(1)).values():
        call()  # warms up
    calls = runs(n, torch.Generator().manual_seed(0))
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            call()
            taken[name].append(time.process_time() - start)
    over = {name: [a / b for a, b in zip(ts, taken["product"])] for name, ts in taken.items() if name != "product"}
    ratios = {name: [round(q, 3) for q in statistics.quantiles(rs, n=4)] for name, rs in over.items()}
    speed = [round(a / b, 2) for a, b in zip(taken["rows"], taken["float"])]
    rate = round(2 * n * n * D / statistics.median(taken["product"]) / 1e9, 1)
    result = {"n": n, "d": D, "k": K, "over product": ratios, "rows over float": statistics.median(speed),
              "gigaflops of the product": rate, "quantised": "run" if "quantised" in calls else "not run"}
    settings = {"seed": 0, "rounds": rounds, "clock": "CPU time", "ratios": "quartiles"}
    where = {"folder": store.ROOT / "_build"} if quick else {}
    print(result, store.write("verify_speed", result, settings=settings, seconds=time.perf_counter() - began, **where))


if __name__ == "__main__":
    main("--quick" in sys.argv)
