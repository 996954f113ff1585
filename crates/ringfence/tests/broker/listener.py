"""Starts a program where a seccomp listener is there already: a filter that lets everything pass, and somebody who holds its listener."""
import ctypes, os, platform, struct, subprocess, sys

libc = ctypes.CDLL(None, use_errno=True)
SECCOMP, SET_MODE_FILTER, NEW_LISTENER, ALLOW = 317 if platform.machine() == "x86_64" else 277, 1, 8, 0x7FFF0000
program = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, ALLOW), 8)


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_void_p)]


assert libc.prctl(38, 1, 0, 0, 0) == 0
listener = libc.syscall(SECCOMP, SET_MODE_FILTER, NEW_LISTENER, ctypes.byref(Filter(1, ctypes.addressof(program))))
assert listener >= 0, os.strerror(ctypes.get_errno())
sys.exit(subprocess.run(sys.argv[1:]).returncode)
