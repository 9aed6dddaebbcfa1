"""Runs a command on a terminal of its own and talks to it, as a person would.

usage: terminal.py COMMAND [ARGS], steps on standard input, one a line:
  send TEXT      type it; TEXT has Python's escapes (\\x03 is Ctrl-C, \\t Tab)
  expect TEXT    wait until the output, from where the last expect ended, holds it
  signal NAME    send the signal (INT, WINCH ...) to the command
  size ROWS COLUMNS
  busy           wait until the command has computed for a while
  idle           wait until it sleeps, with no signal left to take and nothing more shown
  end            wait until the command has ended
What the terminal showed goes to standard output, escape sequences and all. Exit status: the command's, 128 + the
number of the signal that ended it, or 99 when an expected text did not come in time.
"""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

PATIENCE = float(os.environ.get("TERMINAL_PATIENCE", "20"))  # seconds


class Terminal:
    def __init__(self, command):
        self.shown = b""
        self.seen = 0
        self.open = True
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.execvp(command[0], command)
        self.size(24, 80)

    def size(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", int(rows), int(columns), 0, 0))

    def read(self, seconds):
        """False once the command has closed the terminal."""
        if self.open and select.select([self.fd], [], [], seconds)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            self.open = data != b""
            self.shown += data
        return self.open

    def expect(self, text):
        deadline = time.monotonic() + PATIENCE
        while True:
            at = self.shown.find(text, self.seen)
            if at >= 0:
                self.seen = at + len(text)
                return
            if time.monotonic() > deadline or not self.read(0.1) and self.shown.find(text, self.seen) < 0:
                self.give_up("expected %r" % text)

    def stat(self):
        """State and processor time, in hundredths of a second."""
        try:
            with open("/proc/%d/stat" % self.pid) as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            return "X", 0
        return fields[0], int(fields[11]) + int(fields[12])

    def has_signals(self):
        with open("/proc/%d/status" % self.pid) as file:
            pending = [int(line.split()[1], 16) for line in file if line.startswith(("SigPnd", "ShdPnd"))]
        return any(pending)

    def until(self, reached, what):
        deadline = time.monotonic() + PATIENCE
        while self.open and not reached():
            if time.monotonic() > deadline:
                self.give_up(what)
            self.read(0.01)

    def busy(self):
        begun = self.stat()[1]
        self.until(lambda: self.stat()[1] >= begun + 3, "expected it to compute")

    def idle(self):
        quiet = [0, len(self.shown)]

        def reached():
            still = self.stat()[0] == "S" and not self.has_signals() and len(self.shown) == quiet[1]
            quiet[:] = [quiet[0] + 1 if still else 0, len(self.shown)]
            return quiet[0] >= 3
        self.until(reached, "expected it to sleep")

    def end(self):
        deadline = time.monotonic() + PATIENCE
        while self.read(0.1):
            if time.monotonic() > deadline:
                self.give_up("expected the end")
        _, status = os.waitpid(self.pid, 0)
        self.finish(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))

    def give_up(self, why):
        try:
            os.kill(self.pid, signal.SIGKILL)
        except OSError:
            pass
        self.shown += ("\n[%s after %r]\n" % (why, self.shown[self.seen:])).encode()
        self.finish(99)

    def finish(self, status):
        sys.stdout.buffer.write(self.shown)
        sys.stdout.flush()
        os._exit(status)


def unescape(text):
    return text.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1")


def main():
    terminal = Terminal(sys.argv[1:])
    for line in sys.stdin.buffer.read().decode("latin-1").split("\n"):
        step, _, text = line.partition(" ")
        if step == "send":
            os.write(terminal.fd, unescape(text))
        elif step == "expect":
            terminal.expect(unescape(text))
        elif step == "signal":
            os.kill(terminal.pid, getattr(signal, "SIG" + text))
        elif step == "size":
            terminal.size(*text.split())
        elif step in ("busy", "idle"):
            getattr(terminal, step)()
        elif step:
            assert step == "end", step
    terminal.end()


main()
