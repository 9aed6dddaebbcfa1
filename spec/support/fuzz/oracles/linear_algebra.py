"""The oracle's linear algebra: NumPy in float64, and how far rounding may be carried by each matrix's condition."""
import numpy as np

from .common import exactly, op


def turned(x):
    return np.swapaxes(x, -1, -2)


def norm(x):
    """The greatest singular value of each matrix, kept as [..., 1, 1]."""
    return np.linalg.norm(x, 2, (-2, -1), keepdims=True) if x.size else np.zeros(x.shape[:-2] + (1, 1))


def condition(x):
    s = np.linalg.svd(x, compute_uv=False)
    return (s[..., :1] / s[..., -1:])[..., None]


def is_plain(*operands):
    """Finite, and no squares beyond float32."""
    return all((np.abs(x) < 1e15).all() for x in operands)


def exponential(x):
    """A Taylor series of x / 2^k in long double, squared k times."""
    k = max(0, int(np.ceil(np.log2(max(np.abs(x).sum(-1).max(), 1e-30)))) + 4)
    small = x.astype(np.longdouble) / 2.0**k
    term = total = np.broadcast_to(np.eye(x.shape[-1], dtype=np.longdouble), x.shape)
    for i in range(1, 24):
        term = np.matmul(term, small) / i
        total = total + term
    for _ in range(k):
        total = np.matmul(total, total)
    return total.astype(np.float64)


@op("tril")
def tril(c):
    return exactly(np.tril(c.wide[0], c.get("k", 0)))


@op("triu")
def triu(c):
    return exactly(np.triu(c.wide[0], c.get("k", 0)))


@op("roll")
def roll(c):
    shift, axis = c.get("shift"), c.get("axis")
    return exactly(np.roll(c.wide[0], tuple(np.ravel(shift).tolist()), tuple(np.ravel(axis).tolist())))


@op("outer")
def outer(c):
    y = np.multiply.outer(c.wide[0], c.wide[1])
    return [(y, c.u * np.abs(y))] if c.u else exactly(y)


def carried(c, a, y):
    """Rounding of a times its condition, in a result as large as y."""
    return 16 * a.shape[-1] * (c.w + c.u) * condition(a) * norm(y)


@op("linalg.inv")
def inv(c):
    a = turned(c.wide[0]) if c.get("adjoint") else c.wide[0]
    if not a.size or not is_plain(a):
        return None
    y = np.linalg.inv(a)
    return [(y, carried(c, a, y))]


@op("linalg.det")
def det(c):
    a = c.wide[0]
    if not a.size or not is_plain(a):
        return None
    y = np.linalg.det(a)
    return [(y, c.u * np.abs(y) + 16 * a.shape[-1]**2 * c.w * condition(a)[..., 0, 0] * np.abs(y))]


@op("linalg.slogdet")
def slogdet(c):
    a = c.wide[0]
    if not a.size or not is_plain(a):
        return None
    sign, log_of = np.linalg.slogdet(a)
    bound = 16 * a.shape[-1]**2 * c.w * condition(a)[..., 0, 0]
    return [(sign, 0 * sign), (log_of, bound + (c.u + 4 * a.shape[-1] * c.w) * np.abs(log_of) + c.u)]


@op("linalg.solve")
def solve(c):
    a, b = c.wide
    a = turned(a) if c.get("adjoint") else a
    if not b.size or not is_plain(a, b):
        return None
    y = np.linalg.solve(a, b)
    return [(y, carried(c, a, y))]


@op("linalg.cholesky_solve")
def cholesky_solve(c):
    low, b = np.tril(c.wide[0]), c.wide[1]
    if not b.size or not is_plain(low, b):
        return None
    a = np.matmul(low, turned(low))
    y = np.linalg.solve(a, b)
    return [(y, 2 * carried(c, a, y))]


@op("linalg.qr")
def qr(c):
    a = c.wide[0]
    if not a.size or not is_plain(a):
        return None
    q, r = np.linalg.qr(a)
    sign = np.where(np.diagonal(r, 0, -2, -1) < 0, -1.0, 1.0)
    q, r = q * sign[..., None, :], r * sign[..., None]
    k = r.shape[-2]
    spread = 16 * max(a.shape[-2:]) * (c.w * condition(r[..., :k]) + c.u)
    return [(q, spread), (r, spread * norm(a))]


@op("linalg.svd")
def svd(c):
    a = c.wide[0]
    if not a.size or not is_plain(a):
        return None
    return [(np.linalg.svd(a, compute_uv=False), (16 * max(a.shape[-2:]) * c.w + c.u) * norm(a)[..., 0])]


@op("linalg.eigh")
def eigh(c):
    a = (c.wide[0] + turned(c.wide[0])) / 2
    if not a.size or not is_plain(a):
        return None
    return [(np.linalg.eigvalsh(a), (16 * a.shape[-1] * c.w + c.u) * norm(a)[..., 0])]


@op("linalg.pinv")
def pinv(c):
    a = c.wide[0]
    if not a.size or not is_plain(a) or c.get("rcond") is not None or condition(a).max() > 1e3:
        return None
    y = np.linalg.pinv(a)
    return [(y, 16 * max(a.shape[-2:]) * (c.w * condition(a)**2 + c.u) * norm(y))]


@op("linalg.lstsq")
def lstsq(c):
    a, b, l2 = *c.wide, c.get("l2_regularizer", 0)
    if not a.size or not b.size or not is_plain(a, b):
        return None
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    factor, spread = s / (s * s + l2), np.sqrt((s[..., :1]**2 + l2) / (s[..., -1:]**2 + l2))[..., None]
    if not is_plain(factor) or spread.max() > 1e3:
        return None
    y = np.matmul(turned(vt), factor[..., None] * np.matmul(turned(u), b))
    greatest = np.max(factor, -1)[..., None, None]
    return [(y, 16 * max(a.shape[-2:]) * (c.w + c.u) * spread**2 * greatest * norm(b))]


@op("linalg.expm")
def expm(c):
    x = c.wide[0]
    if not x.size or not is_plain(x) or np.abs(x).sum(-1).max() > 30:
        return None
    return [(exponential(x), 16 * x.shape[-1] * (c.w + c.u) * np.exp(np.abs(x).sum(-1).max()))]
