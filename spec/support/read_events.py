"""Reads TensorBoard event files, knowing nothing of how they were written: `read_events.py folder`
prints, for each scalar of folder/*/events.out.tfevents.*, "kind tag step value"; for a histogram the
number of its elements; for a picture "kind tag step", its extents and the sum of its samples; for a
graph "kind node name class inputs". Damage ends it."""
import glob
import os
import struct
import sys
import zlib


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    data = open(path, "rb").read()
    at = 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert masked(data[at:at + 8]) == check, f"{path}: checksum of a length at {at}"
        body = data[at + 12:at + 12 + length]
        assert len(body) == length, f"{path}: cut off at {at}"
        assert masked(body) == struct.unpack_from("<I", data, at + 12 + length)[0], f"{path}: checksum of a record at {at}"
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif kind == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            assert kind == 2, f"wire type {kind}"
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
            assert len(value) == length, "a field is cut off"
        yield key >> 3, value


def number_of_elements(proto):
    found = dict(fields(proto))
    count = len(found[6]) // 8
    counts = struct.unpack(f"<{count}d", found[7])
    limits = struct.unpack(f"<{count}d", found[6])
    assert list(limits) == sorted(limits), "limits of a histogram fall"
    assert sum(counts) == found[3], "a histogram's buckets don't hold all elements"
    return found[3]


def picture(proto):
    """Extents, and the sum of all samples of an 8-bit PNG without interlacing."""
    found = dict(fields(proto))
    png, at, data = found[4], 8, b""
    assert png[:8] == b"\x89PNG\r\n\x1a\n", "a picture that is no PNG"
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        if kind == b"IDAT":
            data += png[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack_from(">IIBB", png, at + 8)
        at += 12 + length
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    assert (height, width, channels, depth) == (found[1], found[2], found[3], 8), "extents differ"
    raw, row, total = zlib.decompress(data), width * channels, 0
    before = [0] * row
    for y in range(height):
        kind, line = raw[y * (row + 1)], list(raw[y * (row + 1) + 1:(y + 1) * (row + 1)])
        for x in range(row):
            left = line[x - channels] if x >= channels else 0
            up, corner = before[x], before[x - channels] if x >= channels else 0
            guess = left + up - corner
            near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up),
                       (abs(guess - corner), 2, corner))[2]
            line[x] = line[x] + (0, left, up, (left + up) // 2, near)[kind] & 255
        before, total = line, total + sum(line)
    return f"{height} {width} {channels} {total}"


for path in sorted(glob.glob(sys.argv[1] + "/*/events.out.tfevents.*")):
    run = os.path.basename(os.path.dirname(path))
    for body in records(path):
        event = dict(fields(body))
        assert event[1] > 1.6e9, "the time of an event"
        if 3 in event:
            print(run, "version", event[3].decode())
        for _, node in fields(event.get(4, b"")):
            parts = list(fields(node))
            names = [value.decode() for number, value in parts if number != 5]
            print(run, "node", *names)
        for number, value in fields(event.get(5, b"")):
            parts = dict(fields(value))
            if 4 in parts:
                print(run, parts[1].decode(), event.get(2, 0), "picture", picture(parts[4]))
                continue
            shown = number_of_elements(parts[5]) if 5 in parts else parts[2]
            print(run, parts[1].decode(), event.get(2, 0), repr(shown))
