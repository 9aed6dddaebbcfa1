"""PyTorch's side of `make bench-ops`: the ops and shapes of spec/support/ops_bench.c.
usage: torch_ops.py THREADS [NAME...]     prints "name shape microseconds", measured as there."""
import os
import sys
import time

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
WANTED = sys.argv[2:]
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # the BLAS library counts its own
    os.environ[name] = str(THREADS)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

torch.set_num_threads(THREADS)
stopwatch = time.process_time if THREADS == 1 else time.perf_counter


def measure(f):
    f()
    start = stopwatch()
    f()
    repeats = int(0.02 / max(stopwatch() - start, 1e-7)) + 1
    best = 1e9
    for _ in range(7):
        start = stopwatch()
        for _ in range(repeats):
            f()
        best = min(best, (stopwatch() - start) / repeats)
    return best


def show(name, shape, f):
    if not WANTED or any(name.startswith(w) for w in WANTED):
        print("%s %s %.3f" % (name, shape, measure(f) * 1e6), flush=True)


def flat():
    for n in (1024, 10240, 102400, 1024000, 10240000):
        a, b, c = torch.rand(n) * 4 - 2, torch.rand(n), torch.empty(n)
        show("add", n, lambda: torch.add(a, b, out=c))
        show("relu", n, lambda: torch.clamp_min(a, 0, out=c))
        show("exp", n, lambda: torch.exp(a, out=c))
        show("gelu", n, lambda: F.gelu(a, approximate="tanh"))
        show("sum", n, lambda: a.sum())


def rows():
    for r, c in ((32, 16), (2048, 80), (8192, 128), (1024, 1024)):
        a, w = torch.rand(r, c), torch.rand(c)
        shape = "%dx%d" % (r, c)
        show("softmax", shape, lambda: F.softmax(a, -1))
        show("layernorm", shape, lambda: F.layer_norm(a, (c,), w, w))
        show("transpose", shape, lambda: a.t().contiguous())


def convolutions():
    """The faster of PyTorch's two layouts; the backward pass is dX and dW."""
    for name, batch, ci, co, extent, pad in (
        ("W3.conv1", 64, 1, 32, 28, 0), ("W3.conv2", 64, 32, 64, 26, 0), ("W4.s1", 32, 16, 16, 32, 1),
        ("W4.s2", 32, 32, 32, 16, 1), ("W4.s3", 32, 64, 64, 8, 1),
    ):
        for backward in (False, True):
            times = []
            label = "conv-bwd" if backward else "conv-fwd"
            if WANTED and not any(label.startswith(w) for w in WANTED):
                continue
            for layout in (torch.contiguous_format, torch.channels_last):
                x = torch.rand(batch, ci, extent, extent).contiguous(memory_format=layout)
                w = torch.rand(co, ci, 3, 3).contiguous(memory_format=layout)
                y = F.conv2d(x, w, padding=pad)
                g = torch.rand_like(y)
                if backward:
                    times.append(measure(lambda: torch.ops.aten.convolution_backward(
                        g, x, w, None, [1, 1], [pad, pad], [1, 1], False, [0, 0], 1, [True, True, False])))
                else:
                    times.append(measure(lambda: F.conv2d(x, w, padding=pad)))
            print("%s %s %.3f" % (label, name, min(times) * 1e6), flush=True)


def products():
    for name, batch, i, o in (
        ("W1.l1", 32, 784, 128), ("W1.l2", 32, 128, 10), ("W2.l1", 32, 784, 256), ("W2.l2", 32, 256, 128), ("W2.l3", 32, 128, 64),
        ("W2.l4", 32, 64, 32), ("W2.l5", 32, 32, 10), ("W3.fc1", 64, 9216, 128), ("W5.qkv", 2048, 128, 384),
        ("W5.proj", 2048, 128, 128), ("W5.fc1", 2048, 128, 512), ("W5.fc2", 2048, 512, 128), ("W5.head", 2048, 128, 65),
        ("W6.step", 32, 256, 1024), ("W6.in", 2048, 128, 1024), ("W6.head", 2048, 256, 65), ("W7.l1", 256, 1024, 4096),
        ("W7.l2", 256, 4096, 4096), ("W7.l3", 256, 4096, 1024), ("sq512", 512, 512, 512), ("sq2048", 2048, 2048, 2048),
    ):
        x, w, y = torch.rand(batch, i), torch.rand(i, o), torch.rand(batch, o)
        yo, dw, dx = torch.empty(batch, o), torch.empty(i, o), torch.empty(batch, i)
        show("gemm-fwd", name, lambda: torch.matmul(x, w, out=yo))
        show("gemm-dW", name, lambda: torch.matmul(x.t(), y, out=dw))
        show("gemm-dX", name, lambda: torch.matmul(y, w.t(), out=dx))


with torch.no_grad():
    flat()
    rows()
    convolutions()
    products()
