#!/usr/bin/env python3
"""The workloads beside this folder in PyTorch, eager: torch_workload.py WORKLOAD THREADS DATA [seconds]

DATA is a folder with mnist/ and tinyshakespeare.txt; without the former, images are random numbers: a step takes as long.
Prints one JSON line of the same form as the workloads'.
Models, batches, optimizers and FLOP counts are theirs; images are normalised once and picked with index_select,
convolutions run channels-last."""
import gzip
import json
import os
import resource
import statistics
import sys
import time

WORKLOAD, THREADS, DATA = sys.argv[1], int(sys.argv[2]), sys.argv[3]
SECONDS = float(sys.argv[4]) if len(sys.argv) > 4 else 2.0
CHUNKS = 9
TEXT = os.path.join(DATA, "tinyshakespeare.txt")
if WORKLOAD in ("w5", "w6") and not os.path.exists(TEXT):
    sys.exit(f"torch_workload.py: there is no {TEXT}")

started = time.perf_counter()
import torch
from torch import nn
from torch.nn import functional as F


def mnist(name, header, limit, shape):
    """The numbers of a file of MNIST; where it is missing, random ones below the limit."""
    path = os.path.join(DATA, "mnist", name)
    if not os.path.exists(path):
        return torch.randint(limit, shape, dtype=torch.uint8)
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


def mnist_batches(batch, shape):
    """A function that returns the next shuffled batch, for ever."""
    images = (mnist("train-images-idx3-ubyte.gz", 16, 256, (60000, 28, 28)).float() / 255).view(-1, *shape)
    labels = mnist("train-labels-idx1-ubyte.gz", 8, 10, (60000,)).long()
    if len(shape) == 3:
        images = images.contiguous(memory_format=torch.channels_last)

    def endless():
        while True:
            for part in torch.randperm(len(images)).split(batch):
                if len(part) == batch:
                    yield images.index_select(0, part), labels.index_select(0, part)
    return endless().__next__


def text_windows(batch, length):
    with open(TEXT) as file:
        text = file.read()
    number = {c: i for i, c in enumerate(sorted(set(text)))}
    text = torch.tensor([number[c] for c in text])
    places = torch.arange(length)

    def draw():
        at = torch.randint(len(text) - length - 1, (batch, 1)) + places
        return text[at], text[at + 1]
    return draw, len(number)


def mlp(extents):
    parts = []
    for inputs, outputs in zip(extents, extents[1:]):
        parts += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


class Residual(nn.Module):
    def __init__(self, inputs, filters, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, filters, 3, stride, 1, bias=False), nn.BatchNorm2d(filters), nn.ReLU(),
            nn.Conv2d(filters, filters, 3, 1, 1, bias=False), nn.BatchNorm2d(filters))
        self.short = nn.Sequential()
        if stride != 1:
            self.short = nn.Sequential(nn.Conv2d(inputs, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


def resnet20():
    parts, inputs = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()], 16
    for filters in (16, 32, 64):
        for i in range(3):
            parts.append(Residual(inputs, filters, 2 if i == 0 and filters > 16 else 1))
            inputs = filters
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Block(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("hidden", torch.ones(context, context).triu(1).bool())

    def forward(self, x):
        batch, context, width = x.shape
        q, k, v = (part.view(batch, context, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm_1(x)).chunk(3, dim=2))
        scores = (q @ k.transpose(2, 3) * (width // self.heads) ** -0.5).masked_fill(self.hidden, float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, context, width))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class GPT(nn.Module):
    def __init__(self, characters, width=128, heads=4, depth=4, context=128):
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.position = nn.Parameter(torch.randn(context, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads, context) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters, bias=False)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.embedding(x) + self.position)))


class CharLSTM(nn.Module):
    def __init__(self, characters, width=128, units=256):
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.lstm = nn.LSTM(width, units, batch_first=True)
        self.head = nn.Linear(units, characters)

    def forward(self, x):
        return self.head(self.lstm(self.embedding(x))[0])


def convolutions():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))


def constant(x, y):
    return lambda: (x, y)


def sequence_loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def workload():
    """batches, model, optimizer, loss, micro-batches per update"""
    w, loss, count = WORKLOAD, F.cross_entropy, 1
    if w == "w1":
        batches, model = mnist_batches(32, (784,)), mlp([784, 128, 10])
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
    elif w in ("w2", "w2_ga4"):
        batches, model = mnist_batches(32, (784,)), mlp([784, 256, 128, 64, 32, 10])
        optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
        count = 4 if w == "w2_ga4" else 1
    elif w == "w3":
        batches = mnist_batches(64, (1, 28, 28))
        model = convolutions().to(memory_format=torch.channels_last)
        optimizer = torch.optim.Adam(model.parameters())
    elif w == "w4":
        images = torch.randn(32, 3, 32, 32).contiguous(memory_format=torch.channels_last)
        batches, model = constant(images, torch.randint(10, (32,))), resnet20().to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    elif w == "w5":
        batches, characters = text_windows(16, 128)
        model, loss = GPT(characters), sequence_loss
        optimizer = torch.optim.AdamW(model.parameters(), 3e-4)
    elif w == "w6":
        batches, characters = text_windows(32, 64)
        model, loss = CharLSTM(characters), sequence_loss
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    else:
        batches, model, loss = constant(torch.randn(256, 1024), torch.randn(256, 1024)), mlp([1024, 4096, 4096, 1024]), F.mse_loss
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
    return batches, model, optimizer, loss, count


def main():
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    batches, model, optimizer, loss_of, count = workload()
    losses = []

    def step():
        x, y = batches()
        loss = loss_of(model(x), y)
        (loss / count).backward()
        losses.append(loss.detach())
        if len(losses) % count == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    step()
    startup = time.perf_counter() - started
    warm, steps = time.perf_counter(), 0
    while time.perf_counter() - warm < 0.3:
        step()
        steps += 1
    a_step = (time.perf_counter() - warm) / steps
    per_chunk, times = max(1, int(SECONDS / CHUNKS / a_step)), []
    for _ in range(CHUNKS):
        begin = time.perf_counter()
        for _ in range(per_chunk):
            step()
        times.append((time.perf_counter() - begin) / per_chunk * 1e6)
    window = min(50, len(losses) // 2)
    print(json.dumps({
        "workload": WORKLOAD, "threads": THREADS, "us_per_step": statistics.median(times),
        "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "startup_ms": startup * 1e3,
        "loss_first": torch.stack(losses[:window]).mean().item(), "loss": torch.stack(losses[-window:]).mean().item()}))


main()
