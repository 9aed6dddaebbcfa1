# Image layers once more in NumPy's float64, from the words of Keras 2.6's documentation and the
# formulas of TensorFlow's ops: image_oracle.py FOLDER, after image_cases.lua.
import json
import sys

import numpy as np

folder = sys.argv[1]


def resize_axis(x, axis, to, interpolation):
    n = x.shape[axis]
    at = (np.arange(to) + 0.5) * n / to
    if interpolation == "nearest":
        return np.take(x, np.minimum((2 * np.arange(to) + 1) * n // (2 * to), n - 1), axis)
    at = np.clip(at - 0.5, 0, n - 1)
    low = np.floor(at).astype(int)
    high = np.minimum(low + 1, n - 1)
    shape = [1] * x.ndim
    shape[axis] = to
    share = (at - low).reshape(shape)
    return np.take(x, low, axis) * (1 - share) + np.take(x, high, axis) * share


def resize(x, height, width, interpolation="bilinear"):
    return resize_axis(resize_axis(x, 1, height, interpolation), 2, width, interpolation)


def middle(x, height, width):
    top, left = (x.shape[1] - height) // 2, (x.shape[2] - width) // 2
    return x[:, top:top + height, left:left + width]


def resizing(x, a):
    height, width = a["height"], a["width"]
    if a["crop_to_aspect_ratio"]:
        h, w = x.shape[1:3]
        tall, wide = int(w * height / width), int(h * width / height)
        x = middle(x, max(1, min(h, tall)), max(1, min(w, wide)))
    return resize(x, height, width, a["interpolation"])


# In proportion until it covers the window, then the middle.
def covering(x, height, width):
    h, w = x.shape[1:3]
    if h / w > height / width:
        x = resize(x, int(width * h / w), width)
    else:
        x = resize(x, height, int(height * w / h))
    return middle(x, height, width)


def inside(p, n, mode):
    if mode == "nearest":
        return np.clip(p, 0, n - 1)
    p = np.mod(p, 2 * n)
    return np.clip(np.where(p >= n, 2 * n - 1 - p, p), 0, n - 1)


def transformed(x, a, m):
    batch, h, w, _ = x.shape
    rows, columns = np.arange(h, dtype=np.float32), np.arange(w, dtype=np.float32)
    i, j = np.meshgrid(rows, columns, indexing="ij")
    m = [np.float32(v) for v in m]
    column, row = m[0] * j + m[1] * i + m[2], m[3] * j + m[4] * i + m[5]
    near = np.minimum(np.abs(row % 1 - 0.5), np.abs(column % 1 - 0.5))
    mode = a["fill_mode"]
    if mode != "constant":
        row, column = inside(row.astype(float), h, mode), inside(column.astype(float), w, mode)

    def read(y, x_):
        out = np.full(x.shape, float(a["fill_value"]))
        ok = (y >= 0) & (y < h) & (x_ >= 0) & (x_ < w)
        values = x[:, np.clip(y, 0, h - 1).astype(int), np.clip(x_, 0, w - 1).astype(int)]
        return np.where(ok[None, :, :, None], values, out)

    if a["interpolation"] == "nearest":
        def away(p):
            return np.where(p < 0, np.ceil(p - 0.5), np.floor(p + 0.5))
        y = read(away(row), away(column))
        # positions that rounding may move: nothing is said of their pixels
        return np.where((near < 1e-4)[None, :, :, None], np.nan, y)
    y0, x0 = np.floor(row), np.floor(column)
    dy, dx = (row - y0)[None, :, :, None], (column - x0)[None, :, :, None]
    top = read(y0, x0) * (1 - dx) + read(y0, x0 + 1) * dx
    bottom = read(y0 + 1, x0) * (1 - dx) + read(y0 + 1, x0 + 1) * dx
    return top * (1 - dy) + bottom * dy


def one(value):
    return value[0]


def translation(x, a):
    dy = np.float32(one(a["height_factor"])) * x.shape[1]
    dx = np.float32(one(a["width_factor"])) * x.shape[2]
    return transformed(x, a, [1, 0, -dx, 0, 1, -dy])


def rotation(x, a):
    h, w = x.shape[1] - 1, x.shape[2] - 1
    t = one(a["factor"]) * 2 * np.pi
    c, s = np.cos(t), np.sin(t)
    return transformed(x, a, [c, -s, (w - (c * w - s * h)) / 2, s, c, (h - (s * w + c * h)) / 2])


def zoom(x, a):
    zy, zx = 1 + one(a["height_factor"]), 1 + one(a["width_factor"])
    x_offset, y_offset = (x.shape[2] - 1) / 2 * (1 - zx), (x.shape[1] - 1) / 2 * (1 - zy)
    return transformed(x, a, [zx, 0, x_offset, 0, zy, y_offset])


def close(y, want, scale):
    known = ~np.isnan(want)
    return y.shape == want.shape and np.all(np.abs(y - want)[known] <= scale)


def one_of_flips(x, y, mode, scale):
    for image, got in zip(x, y):
        options = [image]
        if mode != "vertical":
            options.append(image[:, ::-1])
        if mode != "horizontal":
            options += [o[::-1] for o in options]
        if not any(close(got, o, scale) for o in options):
            return False
    return True


def one_of_windows(x, y, a, scale):
    height, width = a["height"], a["width"]
    if x.shape[1] < height or x.shape[2] < width:
        return close(y, covering(x, height, width), scale)
    return any(close(y, x[:, i:i + height, j:j + width], scale)
               for i in range(x.shape[1] - height + 1) for j in range(x.shape[2] - width + 1))


# One factor for the batch, between 1 - lower and 1 + upper.
def is_contrast(x, y, factor, scale):
    mean = x.mean((1, 2), keepdims=True)
    far = np.abs(x - mean)
    if far.max() < 1:
        return close(y, x, scale)
    at = np.unravel_index(far.argmax(), far.shape)
    found = (y - mean)[at] / (x - mean)[at]
    room = 0.02
    return 1 - factor[0] - room <= found <= 1 + factor[1] + room and \
        close(y, (x - mean) * found + mean, 4 * scale)


def right(case, x, y):
    name, a, training = case["name"], case["arguments"], case["training"]
    turned = name in ("RandomRotation", "RandomZoom")
    scale = 255 * (4e-3 if case["dtype"] == "float16" else 2e-4 if turned else 1e-5)
    if name == "Rescaling":
        return close(y, x * a["scale"] + a["offset"], scale * max(1, abs(a["scale"])))
    if name == "Resizing":
        return close(y, resizing(x, a), scale)
    if name == "CenterCrop":
        return close(y, middle(x, a["height"], a["width"]), scale)
    if name == "RandomCrop":
        if training:
            return one_of_windows(x, y, a, scale)
        return close(y, covering(x, a["height"], a["width"]), scale)
    if not training:
        return close(y, x, 0)
    if name == "RandomFlip":
        return one_of_flips(x, y, a["mode"], 0)
    if name == "RandomContrast":
        return is_contrast(x, y, a["factor"], scale)
    f = {"RandomTranslation": translation, "RandomRotation": rotation, "RandomZoom": zoom}[name]
    # a position's rounding is worth up to one neighbour's share
    return close(y, f(x, a), 4 * scale if a["interpolation"] == "bilinear" else scale)


cases, wrong = 0, 0
for line in open(folder + "/cases.jsonl"):
    case = json.loads(line)
    cases += 1
    with np.load("%s/%d.npz" % (folder, case["number"])) as arrays:
        x, y = arrays["x"].astype(float), arrays["y"].astype(float)
    want = "float16" if case["dtype"] == "float16" else "float32"
    is_float = case["out"] == want or case["name"] == "RandomFlip" and case["out"] == case["dtype"]
    if x.ndim == 3:
        x, y = x[None], y[None]
    if not is_float or not right(case, x, y):
        wrong += 1
        print("case %d: %s" % (case["number"], line.strip()), "in", x.shape, "out", y.shape)
print("%d cases, %d wrong" % (cases, wrong))
